#include "verifier/checker/questions.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <memory>
#include <sstream>

#include "base/error.h"

extern char** environ;

namespace rewright::proof {

namespace {

class Process {
 public:
  explicit Process(const std::string& command) : command_(command) {
    std::vector<std::string> words;
    std::istringstream stream(command);
    for (std::string word; stream >> word;) words.push_back(word);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2];
    if (words.empty() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("cannot be started");
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO}) posix_spawn_file_actions_adddup2(&actions, ends[1], descriptor);
    const int status = posix_spawnp(&process_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (status != 0) {
      process_ = 0;
      close(socket_);
      fail("cannot be started");
    }
  }
  ~Process() {
    close(socket_);
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  Answer solve(const Query& query) {
    std::string text = "(reset)\n(set-option :rlimit " + std::to_string(query.steps) + ")\n" + query.text + "(check-sat)\n";
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) fail("has ended");
      sent += static_cast<std::size_t>(n);
    }
    const std::string answer = line();
    return answer == "unsat"     ? Answer::kProved
           : answer == "sat"     ? Answer::kRefuted
           : answer == "unknown" ? Answer::kUnknown
                                 : throw Error(ErrorCode::kMissing, "it says: " + answer.substr(0, 200), command_);
  }

 private:
  std::string line() {
    for (;;) {
      if (const auto end = buffer_.find('\n'); end != std::string::npos) {
        const std::string result = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return result;
      }
      char part[4096];
      const ssize_t n = recv(socket_, part, sizeof part, 0);
      if (n <= 0) fail("has ended");
      buffer_.append(part, static_cast<std::size_t>(n));
    }
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kMissing, "the solver \"" + command_ + "\" " + what);
  }

  std::string command_, buffer_;
  int socket_ = -1;
  pid_t process_ = 0;
};

}  // namespace

Engine external_solver(const std::string& command) {
  return [process = std::make_shared<Process>(command)](const Query& query) { return process->solve(query); };
}

Questions::Questions(const std::vector<Query>& queries, const SolverOptions& options, Engine engine, bool same_solver)
    : engine_(std::move(engine)),
      recorded_(options,
                [this](const Query& query) {
                  const auto found = known_.find(query.text);
                  require(found != known_.end(), "a question that the proof needs is not in it");
                  return found->second.answer;
                }),
      own_(options, [this](const Query& query) {
        ++own_count_;
        return engine_(query);
      }) {
  for (const Query& query : queries) {
    require(query.steps == options.linear_steps || query.steps == options.nonlinear_steps, "a question has another budget");
    Query again = query;
    again.answer = engine_(query);
    const bool agrees =
        again.answer == query.answer || (!same_solver && query.answer != Answer::kProved && again.answer != Answer::kProved);
    if (!agrees)
      throw Refusal{"a question was " + std::string(name(query.answer)) + ", and is now " + std::string(name(again.answer))};
    require(known_.emplace(query.text, std::move(again)).second, "a question is in it twice");
  }
}

}  // namespace rewright::proof
