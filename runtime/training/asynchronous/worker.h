// A process that computes gradients for servers (Downpour), or trains its own weights and exchanges them (Project Adam's
// differences, elastic averaging).
#pragma once

#include "distribution/mail.h"
#include "runtime/training/asynchronous/run.h"

namespace rewright::training {

// Works until the coordinator says that the run is over. Throws Error(kCancelled) if a server has ended.
void work(AsynchronousRun& run, Mail& mail);

}  // namespace rewright::training
