// rewright verify --check-certificate
#pragma once

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace rewright::cli {

struct CertificateOptions {
  std::vector<std::string> files;  // certificates to check, or folders of them
  std::string solver;              // a program to solve with; empty: the linked Z3
};

void add_certificate_options(CLI::App& command, CertificateOptions& options);
// Checks all of them in parallel, and reports in order. The exit status: kBadInput if one is damaged, else kNo if one is
// refused.
int check_certificates(const CertificateOptions& options, const CommonOptions& common);

}  // namespace rewright::cli
