#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/evaluate/scores.h"
#include "compiler/support/result.h"

/// Files with the measured quality of another program's weight formats, which `llmc compare` shows
/// beside its own. docs/cli.md shows the JSON; tools/peers/quality.py writes it.
namespace llmc::evaluate {

/// A weight format of another program.
struct PeerRow {
  std::string name;
  std::uint64_t weight_bytes = 0, weight_bytes_per_token = 0;  // as in CompareRow
  Estimate perplexity;
  Estimate kl;          // mean divergence from the program's own f32 weights, in nats
  double same_top = 0;  // fraction of tokens with the same most probable token
};

/// The formats of a program, measured on the same tokens.
struct PeerFile {
  std::string program;          // name and version
  std::string cache;            // format of its KV cache
  std::uint64_t predicted = 0;  // number of counted tokens
  std::vector<PeerRow> rows;    // names are unique
};

/// Parses the JSON of a file; `file`: its name for messages. All keys are required, and unknown
/// keys are errors. Fails with kBadInput.
Result<PeerFile> parse_peer_file(std::string_view text, const std::string& file);

/// Reads a file of at most 1 MiB. Fails like parse_peer_file().
Result<PeerFile> read_peer_file(const std::filesystem::path& path);

}  // namespace llmc::evaluate
