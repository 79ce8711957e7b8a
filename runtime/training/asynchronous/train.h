// Asynchronous training: what each process of a run does in each mode.
//
//   AsynchronousRun run(std::move(model), data, options, {.mode = Mode::kDownpour, .servers = 1}, backend);
//   Mail mail = introduce(*processes);
//   const AsynchronousFacts facts = train_asynchronously(run, mail, stop.get_token(), listener);
//   if (mail.rank() == 0) use(run.trained());
#pragma once

#include <stop_token>

#include "distribution/mail.h"
#include "runtime/training/asynchronous/run.h"

namespace rewright::training {

// All processes call it. The first one listens, returns the facts, and then has the result in `run`; it throws what any of them
// failed with. The others return when the run is over, and throw Error(kCancelled) if it ends early. Not for Mode::kHogwild,
// which one process computes (hogwild.h).
AsynchronousFacts train_asynchronously(AsynchronousRun& run, Mail& mail, const std::stop_token& stop,
                                       const AsynchronousListener& listener);

}  // namespace rewright::training
