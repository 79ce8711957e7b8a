#include "runtime/onnxruntime/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "runtime/onnxruntime/worker_script.h"

extern char** environ;

namespace rewright::runtime {

namespace {

constexpr std::string_view kSetupHint = "run tools/setup, or set REWRIGHT_PYTHON to a Python that has the package onnxruntime";

constexpr const char* kScriptName = "worker.py";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::filesystem::path python_interpreter() {
  if (std::string python = variable("REWRIGHT_PYTHON"); !python.empty()) return python;
  std::string cache = variable("REWRIGHT_CACHE");
  if (cache.empty()) cache = variable("HOME") + "/.cache/rewright";
  return std::filesystem::path(cache) / "python" / "bin" / "python";
}

const WorkerProgram& onnxruntime_program() {
  static const WorkerProgram program{"ONNX Runtime", worker_script(), kSetupHint};
  return program;
}

Worker::Worker(std::filesystem::path python, const WorkerProgram& program) : program_(program), python_(std::move(python)) {
  const std::filesystem::path script = folder_.path() / kScriptName;
  std::ofstream out(script, std::ios::binary);
  out << program_.script;
  if (!out.flush()) throw Error(ErrorCode::kMissing, "cannot write a temporary file", script.string());
  start();
}

Worker::~Worker() { stop(); }

void Worker::start() {
  if (python_.is_absolute() && access(python_.c_str(), X_OK) != 0)
    throw Error(ErrorCode::kMissing, unusable() + "there is no Python interpreter", python_.string(),
                std::string(program_.hint));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorCode::kMissing, std::string("no socket for the helper process: ") + std::strerror(errno));

  const std::string script = (folder_.path() / kScriptName).string();
  const std::string errors = (folder_.path() / "errors.txt").string();
  std::string program = python_.string();
  std::string argument = script;
  char* arguments[] = {program.data(), argument.data(), nullptr};

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  // A process group of its own: Ctrl-C must not end the helper, since the caller may still want the answer. The helper ends
  // when its standard input closes.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int failure = posix_spawnp(&process_, program.c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure != 0) {
    close(ends[0]);
    process_ = -1;
    throw Error(ErrorCode::kMissing, unusable() + std::strerror(failure), program, std::string(program_.hint));
  }
  socket_ = ends[0];
}

void Worker::stop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  if (process_ < 0) return;
  // Closing its input ends the helper; if it is busy, it is killed.
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (waitpid(process_, nullptr, WNOHANG) != 0) {
      process_ = -1;
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
}

std::string Worker::last_words() const {
  std::ifstream in(folder_.path() / "errors.txt");
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last.substr(0, 300);
}

std::string Worker::unusable() const { return std::string(program_.name) + " cannot be used: "; }

void Worker::fail(const std::string& what) {
  stop();
  const std::string words = last_words();
  const bool absent = words.find("ModuleNotFoundError") != std::string::npos || words.find("ImportError") != std::string::npos;
  if (absent) throw Error(ErrorCode::kMissing, unusable() + words, python_.string(), std::string(program_.hint));
  throw Error(ErrorCode::kMissing, std::string(program_.name) + "'s process " + what + (words.empty() ? "" : ": " + words),
              python_.string());
}

nlohmann::json Worker::ask(const nlohmann::json& request, double seconds, const std::stop_token& cancel,
                           std::chrono::steady_clock::time_point end) {
  if (process_ < 0) start();
  const std::string line = request.dump() + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("ended");
    sent += static_cast<std::size_t>(count);
  }

  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::string reply;
  while (reply.empty() || reply.back() != '\n') {
    if (cancel.stop_requested() || Clock::now() > end) {
      stop();
      throw Error(ErrorCode::kCancelled, cancel.stop_requested() ? "work in " + std::string(program_.name) + " was cancelled"
                                                                 : "the time for it is over");
    }
    if (Clock::now() > deadline) fail("took longer than " + std::to_string(static_cast<long>(seconds)) + " s");
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, 100) <= 0) continue;
    char buffer[1 << 16];
    const ssize_t count = recv(socket_, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("ended");
    reply.append(buffer, static_cast<std::size_t>(count));
  }

  nlohmann::json answer = nlohmann::json::parse(reply, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded() || !answer.is_object()) fail("gave an answer that cannot be read");
  if (answer.contains("error"))
    throw Error(ErrorCode::kUnsupported, std::string(program_.name) + ": " + answer["error"].get<std::string>());
  return answer;
}

}  // namespace rewright::runtime
