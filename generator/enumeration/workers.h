// Independent work, done by all threads of all processes.
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
  // Each thread has its own copy of the forms and may add to it. Types known now have the same numbers in all copies.
  Workers(Communicator& communicator, int threads, const Forms& forms);
  // Calls work(forms, i) once for each i below count. Every process gets all results.
  std::vector<std::string> map(std::size_t count, const std::function<std::string(Forms& forms, std::size_t i)>& work);
  Forms& forms() { return forms_[0]; }  // only between calls of map()

 private:
  Communicator& communicator_;
  std::vector<Forms> forms_;  // by thread
};

}  // namespace rewright::generator
