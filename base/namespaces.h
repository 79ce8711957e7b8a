// Each folder has a namespace of its own, whose names are its alone, and sees the names of the folders that it stands on.
// `base` and `expressions` are the vocabulary of all others: their names stand in `rewright` itself.
#pragma once

namespace rewright {

namespace distribution {}
namespace pictures {}
namespace operators {
using namespace pictures;
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
}
namespace optimizer {
using namespace rules;
}
namespace report {
using namespace optimizer;
}
namespace runtime {
using namespace graph;
using namespace optimizer;
}
namespace planning {
using namespace graph;
}
namespace cpu {
using namespace runtime;
using namespace planning;
}
namespace cuda {
using namespace runtime;
using namespace planning;
}
namespace training {
using namespace runtime;
using namespace distribution;
}
namespace api {
using namespace report;
using namespace training;
}
namespace c {
using namespace api;
}
namespace cli {
using namespace api;
using namespace models;
}
namespace python {
using namespace api;
}
namespace testing {
using namespace api;
using namespace models;
}

}  // namespace rewright
