#include "runtime/training/steps/kept_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "distribution/all_reduce.h"

namespace rewright::training {

namespace {

std::size_t bytes_of(const std::vector<Tensor>& tensors) {
  std::size_t total = 0;
  for (const Tensor& t : tensors) total += t.byte_count();
  return total;
}

void put(std::span<const std::byte> bytes, const Memory& memory, std::size_t offset) {
  std::ranges::copy(bytes, memory->mutable_bytes().begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

KeptTensors::KeptTensors(const ProcessLayout& layout, int zero, std::size_t kinds, Communicator& processes, WorkQueue* queue)
    : layout_(layout),
      zero_(zero),
      kinds_(kinds),
      processes_(processes),
      prefetch_([this](std::size_t parameter) { return whole_parameter(parameter, parameter_gauge_); }, queue) {}

Tensor KeptTensors::parameter(std::size_t number) {
  if (!in_parts()) return whole_.parameters[number];
  const auto& [type, sizes] = layout_.parameters()[number];
  return view(prefetch_.take(number), 0, type, sizes);
}

// Gathers a parameter of which each process has a piece.
Memory KeptTensors::made_whole(std::size_t parameter, const std::byte* mine, Gauge& gauge) {
  const Bounds bounds = layout_.bounds_of(parameter);
  const std::size_t width = layout_.bucket(layout_.bucket_of(parameter)).width(), me = processes_.rank();
  Memory memory = allocated(bounds.back() * width, gauge);
  const std::span<std::byte> bytes = memory->mutable_bytes();
  const std::size_t here = (bounds[me + 1] - bounds[me]) * width;
  if (here > 0) std::memcpy(bytes.data() + bounds[me] * width, mine, here);
  all_gather_parts(processes_, bytes, width, bounds);
  return memory;
}

Memory KeptTensors::whole_parameter(std::size_t parameter, Gauge& gauge) {
  const std::size_t b = layout_.bucket_of(parameter);
  const std::size_t first = std::max(layout_.slot_begin(parameter), layout_.part_begin(b)) - layout_.part_begin(b);
  return made_whole(parameter, parameter_buckets_[b]->bytes().data() + std::min(first, layout_.part_size(b)), gauge);
}

void KeptTensors::load(const TrainedTensors& from) {
  if (zero_ == 0) {
    whole_ = from;
    return;
  }
  whole_.statistics = from.statistics;
  whole_.parameters.clear();
  if (parameter_buckets_.empty())
    for (std::size_t b = 0; b < layout_.buckets().size(); ++b)
      parameter_buckets_.push_back(allocated(in_parts() ? layout_.part_size(b) : layout_.bucket(b).bytes(), parameter_gauge_));
  if (!in_parts()) load_whole_parameters(from.parameters);
  load_pieces(from);
}

void KeptTensors::load_whole_parameters(const std::vector<Tensor>& from) {
  for (std::size_t p = 0; p < from.size(); ++p) {
    const Memory& memory = parameter_buckets_[layout_.bucket_of(p)];
    put(from[p].bytes(), memory, layout_.slot_begin(p));
    whole_.parameters.push_back(view(memory, layout_.slot_begin(p), from[p].type(), from[p].sizes()));
  }
}

// Loads states, and parameters if they are partitioned.
void KeptTensors::load_pieces(const TrainedTensors& from) {
  const auto bytes_of_piece = [&](const Piece& piece, const Tensor& t) {
    const std::size_t width = layout_.bucket(piece.bucket).width();
    return t.bytes().subspan((piece.first - layout_.slot_of(piece.parameter).first) * width, piece.count * width);
  };
  piece_states_.clear();
  for (std::size_t kind = 0; kind < kinds_; ++kind)
    for (const Piece& piece : layout_.own_pieces()) {
      const auto part = bytes_of_piece(piece, from.states[kind * from.parameters.size() + piece.parameter]);
      const Memory memory = allocated(part.size(), state_gauge_);
      put(part, memory, 0);
      piece_states_.push_back(view(memory, 0, layout_.bucket(piece.bucket).type, piece.sizes));
    }
  if (!in_parts()) return;
  for (const Piece& piece : layout_.own_pieces())
    put(bytes_of_piece(piece, from.parameters[piece.parameter]), parameter_buckets_[piece.bucket], layout_.offset(piece, true));
}

TrainedTensors KeptTensors::gather() {
  if (zero_ == 0) return whole_;
  TrainedTensors all;
  all.statistics = whole_.statistics;
  for (const Tensor& t : whole_.parameters) all.parameters.push_back(copy_of(t));
  Gauge uncounted;  // gathered tensors outlive it
  const auto as_tensor = [&](std::size_t p, const Memory& memory) {
    return copy_of(view(memory, 0, layout_.parameters()[p].type, layout_.parameters()[p].sizes));
  };
  const std::size_t count = layout_.parameters().size();
  for (std::size_t p = 0; p < count && in_parts(); ++p)
    all.parameters.push_back(as_tensor(p, whole_parameter(p, parameter_gauge_)));
  const std::vector<Piece>& pieces = layout_.own_pieces();
  for (std::size_t kind = 0; kind < kinds_; ++kind)
    for (std::size_t p = 0; p < count; ++p) {
      const auto mine = std::ranges::find(pieces, p, &Piece::parameter);
      const auto number = kind * pieces.size() + static_cast<std::size_t>(mine - pieces.begin());
      const std::byte* const bytes = mine == pieces.end() ? nullptr : piece_states_[number].bytes().data();
      all.states.push_back(as_tensor(p, made_whole(p, bytes, uncounted)));
    }
  return all;
}

std::vector<Tensor> KeptTensors::updated_parameters() const {
  if (zero_ == 0) return whole_.parameters;
  std::vector<Tensor> parts;
  for (const Piece& piece : layout_.own_pieces())
    parts.push_back(view(parameter_buckets_[piece.bucket], layout_.offset(piece, in_parts()), layout_.bucket(piece.bucket).type,
                         piece.sizes));
  return parts;
}

void KeptTensors::take(std::vector<Tensor> after) {
  if (zero_ == 0) {
    auto next = after.begin();
    for (auto* list : {&whole_.parameters, &whole_.states})
      for (Tensor& t : *list) t = std::move(*next++);
    return;
  }
  const std::vector<Piece>& pieces = layout_.own_pieces();
  for (std::size_t n = 0; n < pieces.size(); ++n)
    put(after[n].bytes(), parameter_buckets_[pieces[n].bucket], layout_.offset(pieces[n], in_parts()));
  for (std::size_t n = 0; n < piece_states_.size(); ++n) {
    const Tensor& state = after[pieces.size() + n];
    std::memcpy(const_cast<std::byte*>(piece_states_[n].bytes().data()), state.bytes().data(), state.byte_count());
  }
}

void KeptTensors::share() {
  if (zero_ == 0 || in_parts()) return;
  for (std::size_t b = 0; b < layout_.buckets().size(); ++b)
    all_gather_parts(processes_, parameter_buckets_[b]->mutable_bytes(), layout_.bucket(b).width(), layout_.bucket(b).bounds);
}

std::size_t KeptTensors::most_parameter_bytes() const {
  return zero_ == 0 ? bytes_of(whole_.parameters) : parameter_gauge_.most.load();
}
std::size_t KeptTensors::most_state_bytes() const { return zero_ == 0 ? bytes_of(whole_.states) : state_gauge_.most.load(); }

}  // namespace rewright::training
