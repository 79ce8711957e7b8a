// Distributions of a value over processes, and the exchanges between them.
#pragma once

#include <cstdint>
#include <string>

#include "distribution/tensor_exchange.h"
#include "expressions/element.h"
#include "operators/operator.h"
#include "plans/cuts/cut.h"

namespace rewright::plans {

// Sizes are known here. Process p of P has, of a value that is cut, the rows from unit * floor(p units / P) on up to where the
// next process begins; the last one has those up to the end of the axis.
struct Holding {
  enum class Kind {
    kWhole,    // each process has all of it
    kCut,      // each process has its rows
    kPartial,  // each process has a tensor of the full size; combined, they are the value
  };
  Kind kind = Kind::kWhole;
  std::size_t axis = 0;                   // kCut
  std::int64_t unit = 1, units = 0;       // kCut; one unit a process where they divide evenly
  Reduction reduction = Reduction::kSum;  // kPartial
  friend bool operator==(const Holding&, const Holding&) = default;

  // The first row of a process; that of process `processes` is the end.
  std::int64_t first_row(std::int64_t process, std::int64_t processes, std::int64_t rows) const;
};
std::string to_string(const Holding& holding);

Holding whole();
Holding partial(Reduction reduction);
// Rows of `axis` divided by units; the canonical form, so that equal rows are equal holdings.
Holding cut_along(std::size_t axis, std::int64_t unit, std::int64_t units, std::int64_t processes, std::int64_t rows);

// Bytes of a value that one process has.
double held_bytes(const TensorType& type, const Holding& holding, std::int64_t processes);

// The distribution that a cut needs of an operand, with rows of the neighbours where windows reach into their parts.
struct Need {
  Holding holding;
  std::int64_t before = 0, after = 0;
  bool once = false;  // only the first process has it, the others zeros
  friend bool operator==(const Need&, const Need&) = default;
};

// The rows that each process has of a value that is held and needed so.
TensorParts parts_of(const Need& need, const Sizes& whole, std::int64_t processes);

// Changes a value's distribution; names as in MPI.
enum class Exchange {
  kNone,           // it is as it should be, or each process keeps a part of what it has
  kAllGather,      // parts to the whole
  kAllReduce,      // partial values to the whole
  kReduceScatter,  // partial values to parts
  kAllToAll,       // parts along one axis to parts along another
  kHalo,           // rows of the neighbours
};
std::string_view name(Exchange exchange);

// Bytes of which an exchange takes its time (plans/partition/partition.h): of the value; of a halo's rows; of an all-to-all, of
// which all processes together send (P - 1) / P, for parts that may differ by a row and neighbours' rows that go to several.
double exchanged_bytes(Exchange exchange, const TensorType& type, const Holding& from, const Need& to, std::int64_t processes);

// Throws Error(kUnsupported) where there is none: partial values of one reduction are no partial values of another.
Exchange exchange_for(const Holding& from, const Need& to);

}  // namespace rewright::plans
