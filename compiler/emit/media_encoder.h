#pragma once

#include <string>

#include "compiler/plan/plan.h"

/// A decoder's media encoder in the emitted source. All functions return an empty text if the plan
/// has none.
namespace llmc::emit {

/// Returns the C++ source of llmc_model::encode_image.
std::string encode_image_function(const plan::Plan& plan);
/// Returns the descriptor's fields with the sizes of the media encoder, if there is one.
std::string image_sizes(const plan::Plan& plan);
/// Returns, for NAME.h, the macros of inputs and rows, and the declaration of NAME_encode_image or
/// NAME_encode_audio.
std::string image_declarations(const plan::Plan& plan);
/// Returns the definition of NAME_encode_image or NAME_encode_audio.
std::string encode_image_definition(const plan::Plan& plan);

}  // namespace llmc::emit
