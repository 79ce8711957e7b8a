// Threads that train the same weights without locks (Niu, Recht, Re and Wright, HOGWILD!, NeurIPS 2011).
#pragma once

#include <stop_token>

#include "runtime/training/asynchronous/run.h"

namespace rewright::training {

// Each of TrainOptions::threads threads computes gradients at what it reads of the weights while others write, and adds the
// change that the optimizer makes of it, element by element where it is not 0. Two additions to one element at the same moment
// may lose one of them. At the end run.weights() are the result.
AsynchronousFacts run_hogwild(AsynchronousRun& run, const std::stop_token& stop, const AsynchronousListener& listener);

}  // namespace rewright::training
