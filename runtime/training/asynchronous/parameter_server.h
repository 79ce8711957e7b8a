// A process that holds a shard of the weights, and applies what workers send. The first one also hands out the steps.
#pragma once

#include <stop_token>

#include "distribution/mail.h"
#include "runtime/training/asynchronous/run.h"

namespace rewright::training {

// Serves until the coordinator says that the run is over. Throws Error(kCancelled) if the coordinator has ended.
void serve(AsynchronousRun& run, Mail& mail);

// Serves and hands out steps until all are done, or `stop` is requested; then run.weights() are the result. Lost workers are
// left out. Throws Error(kMissing) if no worker or not every server is left, and what a worker failed with.
AsynchronousFacts coordinate(AsynchronousRun& run, Mail& mail, const std::stop_token& stop,
                             const AsynchronousListener& listener);

}  // namespace rewright::training
