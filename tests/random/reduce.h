#pragma once

#include <functional>

#include "tests/random/random_graph.h"

namespace llmc::testing {

/// Makes a failing model small: `fails` is called repeatedly with models that compute less. A
/// node whose removal keeps the failure gives way to graph inputs that hold what it computed; what
/// nothing needs any more goes too.
RandomModel reduce(RandomModel model, const std::function<bool(const RandomModel&)>& fails);

}  // namespace llmc::testing
