#include "runtime/training/asynchronous/train.h"

#include <span>
#include <string>

#include "base/error.h"
#include "runtime/training/asynchronous/letters.h"
#include "runtime/training/asynchronous/parameter_server.h"
#include "runtime/training/asynchronous/sandblaster.h"
#include "runtime/training/asynchronous/worker.h"

namespace rewright::training {

namespace {

// Not the coordinator. Its own failures go there.
void take_part(AsynchronousRun& run, Mail& mail) {
  const bool sandblaster = run.asynchronous().mode == Mode::kSandblaster;
  try {
    if (mail.rank() < run.asynchronous().servers)
      sandblaster ? serve_sandblaster(run, mail) : serve(run, mail);
    else
      sandblaster ? work_for_sandblaster(run, mail) : work(run, mail);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    const std::string text = error.what();
    mail.send(0, kFailed, {static_cast<std::int64_t>(error.code())}, std::as_bytes(std::span(text)));
    mail.flush(5);
    throw Error(ErrorCode::kCancelled, text);
  }
}

}  // namespace

AsynchronousFacts train_asynchronously(AsynchronousRun& run, Mail& mail, const std::stop_token& stop,
                                       const AsynchronousListener& listener) {
  if (mail.rank() != 0) {
    take_part(run, mail);
    return {};
  }
  if (run.asynchronous().mode == Mode::kSandblaster) return coordinate_sandblaster(run, mail, stop, listener);
  return coordinate(run, mail, stop, listener);
}

}  // namespace rewright::training
