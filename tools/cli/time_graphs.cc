// `rewright time-graphs FOLDER`: started by `optimize` to time graphs in another process. Not for users.
#include "api/fresh_process.h"
#include "tools/cli/command.h"

namespace rewright::cli {

CLI::App* add_time_graphs(CLI::App& program, Run& run) {
  const auto folder = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("time-graphs", "Time graphs for `rewright optimize`");
  command->group("");  // hidden from the help
  command->add_option("folder", *folder)->required();
  command->callback([folder, &run] {
    run = [folder]() -> int {
      time_graphs_in_folder(*folder);
      return kDone;
    };
  });
  return command;
}

}  // namespace rewright::cli
