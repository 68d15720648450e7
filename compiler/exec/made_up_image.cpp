#include "compiler/exec/made_up_image.h"

#include "compiler/exec/random_inputs.h"

namespace llmc::exec {

Result<RandomMediaInput> encode_random_media(const driver::BundleFacts& facts, Session& session) {
  for (const int max_integer : {1, 0}) {
    RandomMediaInput image;
    for (const driver::ImageInput& input : facts.image_inputs) {
      image.inputs.push_back(random_tensor(input.element, input.dims, max_integer));
      image.data.push_back(image.inputs.back()->bytes());
    }
    auto rows = session.encode_image(image.spans());
    if (rows.ok()) {
      image.rows = *std::move(rows);
      return image;
    }
    if (max_integer == 0 || rows.error().first().kind != ErrorKind::kBadInput)
      return std::move(rows).error();
  }
  return RandomMediaInput();  // not reached
}

}  // namespace llmc::exec
