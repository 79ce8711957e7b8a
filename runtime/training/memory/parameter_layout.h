// The layout of parameters, gradients and states when processes exchange them: consecutively in buckets, a part of each bucket
// belonging to each process.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "distribution/all_reduce.h"
#include "expressions/tensor.h"

namespace rewright::training {

struct ParameterKind {
  DataType type;
  Sizes sizes;
};

struct Slot {
  std::size_t parameter, first, count;  // elements of the bucket
};

struct Bucket {
  DataType type;
  std::vector<Slot> slots;
  std::size_t count = 0;  // elements; every slot starts at a multiple of 64 bytes
  Bounds bounds;          // the part of each process
  std::size_t width() const { return byte_size(type); }
  std::size_t bytes() const { return count * width(); }
};

// The part of a parameter that a process has.
struct Piece {
  std::size_t bucket, parameter, first, count;  // elements of the bucket
  Sizes sizes;                                  // up to two axes, like the parameter: weight decay depends on the rank
};

struct LayoutOptions {
  std::size_t bucket_bytes = 0;  // a bucket is full at this size; 0: one for each type
  std::size_t processes = 1;
  bool cut = true;  // parts may end inside a parameter; otherwise they are uneven
};

class ParameterLayout {
 public:
  // `order`: the parameters in the order in which their gradients are computed.
  ParameterLayout(std::vector<ParameterKind> parameters, std::span<const std::size_t> order, const LayoutOptions& options);

  const std::vector<ParameterKind>& parameters() const { return parameters_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::size_t bucket_of(std::size_t parameter) const { return places_[parameter].bucket; }
  const Slot& slot_of(std::size_t parameter) const {
    return buckets_[places_[parameter].bucket].slots[places_[parameter].slot];
  }
  std::vector<Piece> pieces(std::size_t process) const;
  // The parts of one parameter, relative to its first element.
  Bounds bounds_of(std::size_t parameter) const;
  std::size_t bytes() const;                          // of all buckets
  std::size_t part_bytes(std::size_t process) const;  // of this process's parts

 private:
  struct Place {
    std::size_t bucket, slot;
  };
  std::vector<ParameterKind> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
};

// The layout as one of the processes sees it. Places and sizes are in bytes.
class ProcessLayout : public ParameterLayout {
 public:
  ProcessLayout(ParameterLayout layout, std::size_t process);

  const Bucket& bucket(std::size_t b) const { return buckets()[b]; }
  const std::vector<Piece>& own_pieces() const { return own_pieces_; }
  // The process's part of a bucket.
  std::size_t part_begin(std::size_t b) const { return bucket(b).bounds[process_] * bucket(b).width(); }
  std::size_t part_size(std::size_t b) const { return bucket(b).bounds[process_ + 1] * bucket(b).width() - part_begin(b); }
  // Where a parameter lies in its bucket.
  std::size_t slot_begin(std::size_t parameter) const {
    return slot_of(parameter).first * bucket(bucket_of(parameter)).width();
  }
  // The piece's offset in memory for its whole bucket, or for the process's part of it only.
  std::size_t offset(const Piece& piece, bool in_part) const {
    return piece.first * bucket(piece.bucket).width() - (in_part ? part_begin(piece.bucket) : 0);
  }

 private:
  std::size_t process_;
  std::vector<Piece> own_pieces_;
};

}  // namespace rewright::training
