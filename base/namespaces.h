// The namespaces. Each folder has its own, and sees the names of the folders that it depends on through using-directives. The
// names of base/ and expressions/, which all others use, stand in `rewright` itself.
#pragma once

namespace rewright {

namespace distribution {}
namespace images {}
namespace operators {
using namespace images;
}
namespace graph {
using namespace operators;
}
namespace models {
using namespace graph;
}
namespace rules {
using namespace graph;
}
namespace proof {
using namespace rules;
}
namespace generator {
using namespace rules;
using namespace distribution;
}  // namespace generator
namespace optimizer {
using namespace rules;
}
namespace plans {
using namespace proof;
using namespace optimizer;
using namespace distribution;
}  // namespace plans
namespace equivalence {
using namespace proof;
using namespace optimizer;
}  // namespace equivalence
namespace report {
using namespace optimizer;
}
namespace runtime {
using namespace graph;
using namespace optimizer;
}  // namespace runtime
namespace planning {
using namespace graph;
}
namespace cpu {
using namespace runtime;
using namespace planning;
}  // namespace cpu
namespace cuda {
using namespace runtime;
using namespace planning;
}  // namespace cuda
namespace training {
using namespace runtime;
using namespace distribution;
}  // namespace training
namespace api {
using namespace report;
using namespace training;
}  // namespace api
namespace c {
using namespace api;
}
namespace cli {
using namespace api;
using namespace models;
}  // namespace cli
namespace python {
using namespace api;
}
namespace testing {
using namespace api;
using namespace models;
}  // namespace testing

}  // namespace rewright
