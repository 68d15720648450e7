#pragma once

#include <map>
#include <string>
#include <string_view>

namespace llmc::ir::testing {

/// For every operator, a graph in text form that uses it with non-default attributes. Keyed by the
/// operator's name; tests walk op_names(), so an operator without a sample fails them.
const std::map<std::string_view, std::string>& op_samples();

}  // namespace llmc::ir::testing
