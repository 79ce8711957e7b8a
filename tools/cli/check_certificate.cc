#include "tools/cli/check_certificate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "graph/file.h"
#include "verifier/checker/check.h"

namespace rewright::cli {

namespace {

struct Result {
  proof::CertificateCheck report;
  std::string damage;          // why it is not a certificate; empty if it is
  std::exception_ptr missing;  // the solver cannot be run
  double seconds = 0;
};

// Replaces folders by the certificates in them, by name.
std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      if (entry.path().extension() == ".certificate") inside.push_back(entry.path().string());
    if (error) throw Error(ErrorCode::kBadInput, "cannot be read", path);
    if (inside.empty()) throw Error(ErrorCode::kBadInput, "there is no certificate in it", path);
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

Result check(const std::string& file, const proof::CheckOptions& options) {
  Result result;
  const auto start = std::chrono::steady_clock::now();
  try {
    result.report = proof::check_certificate(map_file(file).text(), file, options);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kMissing)
      result.missing = std::current_exception();
    else
      result.damage = e.what();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::string line_of(const proof::CertificateCheck& r, const std::string& solver) {
  if (!r.accepted) return "refused    " + r.rule + ": " + r.reason + "\n";
  return "accepted   " + r.rule + ": " + (r.any_rank ? "all ranks, " : "to rank " + std::to_string(r.ranks) + ", ") +
         std::to_string(r.cases) + " cases, " + std::to_string(r.questions) + " questions by " + solver + ", " +
         std::to_string(r.elements) + " elements\n";
}

}  // namespace

void add_certificate_options(CLI::App& command, CertificateOptions& options) {
  command
      .add_option("--check-certificate", options.files,
                  "replay these certificates, or those in a folder, instead of searching for proofs")
      ->type_name("FILE");
  command
      .add_option("--solver", options.solver, "solve their questions by this program, e.g. \"z3 -in\" (default: the linked Z3)")
      ->type_name("COMMAND");
}

int check_certificates(const CertificateOptions& options, const CommonOptions& common) {
  const std::vector<std::string> files = files_of(options.files);
  const std::string solver = options.solver.empty() ? "the linked Z3" : options.solver;
  proof::CheckOptions o;
  o.solver = options.solver;
  if (common.seed != 0) o.seed = common.seed;
  const auto start = std::chrono::steady_clock::now();
  std::vector<Result> results(files.size());
  Progress progress(common);
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      results[i] = check(files[i], o);
      const std::lock_guard lock(mutex);
      ++done;
      progress.update("checking", static_cast<double>(done) / static_cast<double>(files.size()), files[i]);
    }
  };
  std::vector<std::jthread> threads;
  for (int t = 1; t < thread_count(common); ++t) threads.emplace_back(work);
  work();
  threads.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  nlohmann::json list = nlohmann::json::array();
  std::size_t accepted = 0, refused = 0, damaged = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Result& r = results[i];
    if (r.missing) std::rethrow_exception(r.missing);
    if (!r.damage.empty()) {
      ++damaged;
      std::cerr << "rewright: error: " << r.damage << std::endl;
      list.push_back({{"file", files[i]}, {"verdict", "damaged"}, {"reason", r.damage}, {"seconds", r.seconds}});
      continue;
    }
    ++(r.report.accepted ? accepted : refused);
    say(common, line_of(r.report, solver));
    list.push_back({{"file", files[i]},
                    {"rule", r.report.rule},
                    {"verdict", r.report.accepted ? "accepted" : "refused"},
                    {"reason", r.report.reason},
                    {"ranks", r.report.any_rank ? 0 : r.report.ranks},
                    {"cases", r.report.cases},
                    {"questions", r.report.questions},
                    {"elements", r.report.elements},
                    {"digest", r.report.digest},
                    {"seconds", r.seconds}});
  }
  if (files.size() > 1)
    say(common, std::to_string(accepted) + " accepted, " + std::to_string(refused) + " refused" +
                    (damaged ? ", " + std::to_string(damaged) + " damaged" : "") + "\n");
  write_json(common, {{"accepted", accepted},
                      {"refused", refused},
                      {"damaged", damaged},
                      {"solver", solver},
                      {"seconds", seconds},
                      {"certificates", list}});
  return damaged ? kBadInput : refused ? kNo : kDone;
}

}  // namespace rewright::cli
