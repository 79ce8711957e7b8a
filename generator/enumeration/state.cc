#include "generator/enumeration/state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include "graph/file.h"

namespace rewright::generator {

namespace {

constexpr int kFormat = 1;
constexpr std::string_view kTitle = "rewright generator state ", kChecksum = "checksum ";

std::string hexadecimal(std::uint64_t number) {
  char text[17];
  return {text, std::to_chars(text, text + sizeof(text), number, 16).ptr};
}

}  // namespace

State::State(StateOptions options, Communicator& communicator)
    : options_(std::move(options)), communicator_(communicator), written_(std::chrono::steady_clock::now()) {
  if (options_.folder.empty()) return;
  std::string text;
  if (communicator_.rank() == 0) {
    std::error_code error;
    std::filesystem::create_directories(options_.folder, error);
    if (!std::filesystem::is_directory(options_.folder))
      throw Error(ErrorCode::kMissing, "the folder cannot be made" + (error ? ": " + error.message() : ""), options_.folder);
    const std::filesystem::path manifest = options_.folder / "state";
    if (!std::filesystem::exists(manifest))
      for (const auto& entry : std::filesystem::directory_iterator(options_.folder))
        if (const std::string name = entry.path().filename(); name != "lock" && name.find(".part") == std::string::npos)
          throw Error(ErrorCode::kUsage, "it holds \"" + name + "\", and no state of the generator", options_.folder,
                      "name a new or empty folder");
    const int lock = ::open((options_.folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0) throw Error(ErrorCode::kMissing, std::string("cannot be written: ") + std::strerror(errno), options_.folder);
    lock_ = std::shared_ptr<void>(nullptr, [lock](void*) { ::close(lock); });
    if (::flock(lock, LOCK_EX | LOCK_NB) != 0) throw Error(ErrorCode::kMissing, "another run uses it", options_.folder);
    if (std::filesystem::exists(manifest)) {
      text = map_file(manifest).text();
      if (text.empty()) throw Error(ErrorCode::kBadInput, "the file is damaged", manifest);
    }
    // A run can only be resumed by the same program: another one could mix different results.
    program_ = hexadecimal(checksum(map_file("/proc/self/exe").text()));
  }
  communicator_.broadcast(text, 0);
  communicator_.broadcast(program_, 0);
  if (!text.empty()) parse(text, program_);
  if (communicator_.rank() != 0) counters_ = {};
}

void State::parse(const std::string& text, const std::string& program) {
  const auto damaged = [&] { return Error(ErrorCode::kBadInput, "the file is damaged", options_.folder / "state"); };
  const std::size_t end = text.rfind(kChecksum);
  if (end == std::string::npos ||
      text.substr(end) != std::string(kChecksum) + hexadecimal(checksum(text.substr(0, end))) + "\n")
    throw damaged();
  std::istringstream lines(text.substr(0, end));
  std::string line, options;
  std::getline(lines, line);
  if (line != std::string(kTitle) + std::to_string(kFormat))
    throw Error(ErrorCode::kBadInput, "it was written by another version of this program", options_.folder);
  std::size_t processes = 0;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key, name;
    words >> key >> std::ws;
    if (key == "program") {
      if (words >> name; name != program)
        throw Error(ErrorCode::kBadInput, "it was written by another version of this program", options_.folder);
    } else if (key == "options") {
      std::getline(words, options);
    } else if (key == "processes") {
      words >> processes;
    } else if (key == "phase") {
      words >> phase_ >> position_;
    } else if (key == "counters") {
      for (double& c : counters_.values) words >> c;
    } else if (key == "file") {
      words >> name >> lengths_[name];
    } else {
      throw damaged();
    }
    if (words.fail()) throw damaged();
  }
  if (options != options_.identity)
    throw Error(ErrorCode::kUsage, "it is the state of another run: " + options, options_.folder,
                "this is " + options_.identity);
  if (processes != communicator_.size())
    throw Error(
        ErrorCode::kUsage,
        "it is the state of " + std::to_string(processes) + " processes, and there are " + std::to_string(communicator_.size()),
        options_.folder);
}

std::string State::file_name(const std::string& name) const { return name + ".part" + std::to_string(communicator_.rank()); }

std::shared_ptr<AppendFile> State::open(const std::string& name) {
  const auto file = std::make_shared<AppendFile>(
      options_.folder.empty() ? std::filesystem::path() : options_.folder / file_name(name), options_.temporary);
  files_[name] = file;
  return file;
}

std::uint64_t State::length(const std::string& name) const {
  const auto known = lengths_.find(file_name(name));
  return known == lengths_.end() ? 0 : known->second;
}

void State::close(const std::string& name) {
  files_.erase(name);
  unneeded_.push_back(name);
}

bool State::step(const std::string& phase, std::uint64_t position, const Counters& counters,
                 const std::function<void()>& flush) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - written_;
  double flags[] = {communicator_.rank() == 0 && passed.count() >= options_.interval ? 1.0 : 0.0,
                    options_.stop.stop_requested() ? 1.0 : 0.0};
  communicator_.sum(std::span<double>(flags));
  const bool stop = flags[1] > 0;
  if (!options_.folder.empty() && (stop || flags[0] > 0)) {
    flush();
    write(phase, position, counters);
  }
  return stop;
}

void State::write(const std::string& phase, std::uint64_t position, const Counters& counters) {
  if (options_.folder.empty()) return;
  Counters total = counters;
  communicator_.sum(std::span<double>(total.values));
  std::string mine;
  for (const auto& [name, file] : files_) {
    file->sync();
    mine += "file " + file_name(name) + " " + std::to_string(file->length()) + "\n";
  }
  const std::vector<std::string> files = communicator_.all_gather(mine);
  if (communicator_.rank() == 0) {
    std::ostringstream text;
    text.precision(17);
    text << kTitle << kFormat << "\nprogram " << program_ << "\noptions " << options_.identity << "\nprocesses "
         << communicator_.size() << "\nphase " << phase << " " << position << "\ncounters";
    for (const double c : total.values) text << " " << c;
    text << "\n";
    for (const std::string& lines : files) text << lines;
    std::string whole = text.str();
    whole += std::string(kChecksum) + hexadecimal(checksum(whole)) + "\n";
    write_file(options_.folder / "state", whole);
  }
  communicator_.barrier();  // until all have written, files of the previous state are still needed
  for (const std::string& name : unneeded_) std::filesystem::remove(options_.folder / file_name(name));
  unneeded_.clear();
  written_ = std::chrono::steady_clock::now();
}

}  // namespace rewright::generator
