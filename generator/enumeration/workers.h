// Work that is independent, done by all threads of all processes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "distribution/communicator.h"
#include "generator/enumeration/forms.h"

namespace rewright::generator {

class Workers {
 public:
  // Each thread has its own copy of the forms, where it may find more; types that are known now have the same numbers in all.
  Workers(Communicator& communicator, int threads, const Forms& forms);
  // work(forms, i) for all i below count: each is done once, and every process gets all of them.
  std::vector<std::string> map(std::size_t count, const std::function<std::string(Forms& forms, std::size_t i)>& work);
  Forms& forms() { return forms_[0]; }  // between two calls of map

 private:
  Communicator& communicator_;
  std::vector<Forms> forms_;  // of each thread
};

}  // namespace rewright::generator
