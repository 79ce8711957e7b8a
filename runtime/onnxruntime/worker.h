// A helper process with a Python library, such as ONNX Runtime: starting, requests, ending.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/temporary_folder.h"

namespace rewright::runtime {

// A script that answers each line of JSON on its standard input by one on its standard output.
struct WorkerProgram {
  std::string_view name;    // of the library, for messages
  std::string_view script;  // its text
  std::string_view hint;    // what to do where Python or the library is missing
};
const WorkerProgram& onnxruntime_program();

class Worker {
 public:
  // Throws Error(kMissing) if it cannot be started.
  explicit Worker(std::filesystem::path python, const WorkerProgram& program = onnxruntime_program());
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Sends a request and waits for the reply. Restarts a process that died before. Throws Error(kUnsupported) with the
  // library's message if the request failed; Error(kMissing) if the process died or took longer than `seconds` (the process is
  // then ended); Error(kCancelled) if `cancel` is requested or `end` is reached.
  nlohmann::json ask(const nlohmann::json& request, double seconds, const std::stop_token& cancel = {},
                     std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max());

  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  void start();
  void stop();
  [[noreturn]] void fail(const std::string& what);
  std::string last_words() const;  // the last line the process wrote to standard error
  std::string unusable() const;    // "ONNX Runtime cannot be used: "

  WorkerProgram program_;
  std::filesystem::path python_;
  TemporaryFolder folder_;
  pid_t process_ = -1;
  int socket_ = -1;
};

// REWRIGHT_PYTHON, or the interpreter of the cache folder.
std::filesystem::path python_interpreter();

}  // namespace rewright::runtime
