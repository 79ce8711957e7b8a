// Resident outputs: computed in their places, or moved there at the end.
#include <algorithm>
#include <set>

#include "runtime/cuda/planning/plan.h"

namespace rewright::cuda {

namespace {

class InPlaces {
 public:
  InPlaces(Plan& plan, const Places& places) : plan_(plan), places_(places) {}

  void choose() {
    plan_.output_places.assign(plan_.outputs.size(), -1);
    for (std::size_t o = 0; o < places_.outputs.size(); ++o) {
      const int place = plan_.output_places[o] = places_.outputs[o];
      if (place >= 0) put(plan_.outputs[o], place);
    }
    let_go_of_kernels();
    std::size_t before = 0;
    for (const std::vector<std::size_t>& group : places_.groups)
      plan_.announced_after.push_back(before = std::max(before, known_after(group)));
  }

 private:
  static bool has(const std::vector<int>& list, int b) { return std::find(list.begin(), list.end(), b) != list.end(); }
  Buffer& buffer(int b) { return plan_.buffers[static_cast<std::size_t>(b)]; }

  void put(int b, int place) {
    const bool resident = buffer(b).kind == Buffer::Kind::kResident;
    if (resident && buffer(b).number == place) return;  // it is there already
    if (resident) throw Error(ErrorCode::kUnsupported, "an output that stays on the device is another tensor that does");
    const int replaced = input_in(place);
    const bool own = buffer(b).kind == Buffer::Kind::kArena && std::count(plan_.outputs.begin(), plan_.outputs.end(), b) == 1;
    if (!own || (replaced >= 0 && !may_take_over(b, replaced))) {
      plan_.moves.push_back({b, place});
      return;
    }
    buffer(b).kind = Buffer::Kind::kResident;
    buffer(b).number = place;
  }

  // The buffer of the input in this place; -1 if there is none.
  int input_in(int place) const {
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers[b].kind == Buffer::Kind::kResident && plan_.buffers[b].number == place) return static_cast<int>(b);
    return -1;
  }

  // Is the result elementwise in the tensor that it replaces, and does no later step read that tensor?
  bool may_take_over(int result, int replaced) {
    const auto writer =
        std::find_if(plan_.steps.begin(), plan_.steps.end(), [&](const Step& s) { return has(s.outputs, result); });
    if (writer == plan_.steps.end() ||
        std::any_of(writer + 1, plan_.steps.end(), [&](const Step& s) { return has(s.inputs, replaced); }))
      return false;
    if (!has(writer->inputs, replaced)) return true;
    auto* const work = std::get_if<KernelStep>(&writer->work);
    if (work == nullptr) return false;
    for (std::size_t i = 0; i < writer->inputs.size(); ++i)
      if (writer->inputs[i] == replaced && !has(work->in_place, static_cast<int>(i))) return false;
    GeneratedKernel kernel = with_aliases(plan_.kernels[work->kernel]);
    const auto same = std::find_if(plan_.kernels.begin(), plan_.kernels.end(),
                                   [&](const GeneratedKernel& k) { return k.name == kernel.name; });
    work->kernel = static_cast<std::size_t>(same - plan_.kernels.begin());
    if (same == plan_.kernels.end()) plan_.kernels.push_back(std::move(kernel));
    return true;
  }

  void find_kernels(const std::vector<Step>& steps, std::set<std::size_t>& used) const {
    for (const Step& step : steps) {
      if (const auto* kernel = std::get_if<KernelStep>(&step.work)) used.insert(kernel->kernel);
      if (const auto* either = std::get_if<EitherStep>(&step.work))
        for (const EitherStep::Alternative& alternative : either->alternatives) find_kernels(alternative.steps, used);
    }
  }

  // Unused kernels need not be compiled.
  void let_go_of_kernels() {
    std::set<std::size_t> used;
    find_kernels(plan_.steps, used);
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k)
      if (!used.contains(k)) plan_.kernels[k].launch.blocks = 0;
  }

  // The number of steps after which all of these outputs are in their places and no longer read there, so that they may be
  // changed.
  std::size_t known_after(const std::vector<std::size_t>& outputs) const {
    std::size_t after = 0;
    for (const std::size_t o : outputs) {
      const int b = plan_.outputs[o];
      if (std::any_of(plan_.moves.begin(), plan_.moves.end(),
                      [&](const Plan::Move& m) { return m.place == plan_.output_places[o]; }))
        return plan_.steps.size();
      for (std::size_t n = 0; n < plan_.steps.size(); ++n)
        if (has(plan_.steps[n].outputs, b) || has(plan_.steps[n].inputs, b)) after = std::max(after, n + 1);
    }
    return after;
  }

  Plan& plan_;
  const Places& places_;
};

}  // namespace

void compute_in_places(Plan& plan, const Places& places) { InPlaces(plan, places).choose(); }

}  // namespace rewright::cuda
