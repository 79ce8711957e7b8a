// Limits the threads of libraries that use OpenMP.
#pragma once

namespace rewright::cpu {

// While it exists, libraries that use OpenMP run on the calling thread only. The pool of workers.h is the only one: two pools
// would wait for each other's threads at barriers.
class LibrariesOnOneThread {
 public:
  LibrariesOnOneThread();
  ~LibrariesOnOneThread();
  LibrariesOnOneThread(const LibrariesOnOneThread&) = delete;
  LibrariesOnOneThread& operator=(const LibrariesOnOneThread&) = delete;

 private:
  int before_;
};

}  // namespace rewright::cpu
