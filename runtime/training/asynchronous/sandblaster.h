// L-BFGS over many processes (Dean et al., Large Scale Distributed Deep Networks, NIPS 2012): servers hold every vector in
// shards and compute with them, a coordinator decides what they compute, and workers compute gradients of small parts of the
// data.
#pragma once

#include <stop_token>

#include "distribution/mail.h"
#include "runtime/training/asynchronous/run.h"

namespace rewright::training {

// As coordinate(), serve() and work(). Every evaluation is the mean loss over all whole batches, in one order, so that it is a
// function of the weights; TrainOptions::epochs limits how many there are. A part of it that a worker is late with, or has
// taken with it, another one computes as well: the first result counts.
AsynchronousFacts coordinate_sandblaster(AsynchronousRun& run, Mail& mail, const std::stop_token& stop,
                                         const AsynchronousListener& listener);
void serve_sandblaster(AsynchronousRun& run, Mail& mail);
void work_for_sandblaster(AsynchronousRun& run, Mail& mail);

}  // namespace rewright::training
