// Which file of a folder is the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "compiler/onnx/inspect.h"
#include "compiler/support/file.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;
using importer::find_model;
using ::testing::HasSubstr;

/// Empty files: only their names are looked at.
void touch(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    fs::create_directories((folder / name).parent_path());
    EXPECT_TRUE(write_file(folder / name, std::string_view()).ok());
  }
}

/// The chosen file, relative to a folder with these; or the message.
std::string chosen(const std::vector<std::string>& names, std::string* note = nullptr) {
  const testing::TemporaryFolder folder;
  touch(folder.path(), names);
  const auto found = find_model(folder.path());
  if (!found.ok()) return found.error().first().message;
  if (note != nullptr) *note = found->note;
  return (found->folder / found->name).string();
}

TEST(FindModel, TakesTheLeastQuantizedOfSeveralAndSaysSo) {
  std::string note;
  EXPECT_EQ(chosen({"config.json", "tokenizer.json", "onnx/model_q4.onnx", "onnx/model.onnx",
                    "onnx/model_fp16.onnx", "onnx/model_int8.onnx"},
                   &note),
            "onnx/model.onnx");
  EXPECT_EQ(note,
            "onnx/model.onnx is used: the unquantized model, which llmc quantizes itself "
            "(--quant); to use another file, give its path: model_fp16.onnx, model_int8.onnx, "
            "model_q4.onnx");
  EXPECT_EQ(
      chosen({"onnx/model_q4f16.onnx", "onnx/model_q4.onnx", "onnx/model_quantized.onnx"}, &note),
      "onnx/model_quantized.onnx");
  EXPECT_THAT(note, HasSubstr("the most exact weights"));
  EXPECT_EQ(chosen({"onnx/model_zz.onnx", "onnx/model_aa.onnx"}, &note), "onnx/model_aa.onnx");
  EXPECT_THAT(note, HasSubstr("the first by name"));
  EXPECT_EQ(chosen({"onnx/decoder_model.onnx", "onnx/decoder_model_merged_quantized.onnx",
                    "onnx/decoder_model_merged.onnx", "onnx/decoder_with_past_model.onnx"},
                   &note),
            "onnx/decoder_model_merged.onnx");
  EXPECT_THAT(note, HasSubstr("with and without a cache in one graph"));
}

TEST(FindModel, HasNothingToExplainAboutTheOnlyOne) {
  std::string note = "?";
  EXPECT_EQ(chosen({"onnx/model_fp16.onnx", "onnx/vision_encoder.onnx"}, &note),
            "onnx/model_fp16.onnx");
  EXPECT_EQ(note, "");
  EXPECT_EQ(chosen({"model_quantized.onnx", "ort_config.json"}, &note), "model_quantized.onnx");
  EXPECT_EQ(note, "");
}

TEST(FindModel, TheFolderItselfComesFirst) {
  EXPECT_EQ(chosen({"model.onnx", "onnx/model.onnx"}), "model.onnx");
  EXPECT_EQ(chosen({"llm.onnx", "embeddings_bf16.bin"}), "llm.onnx");
  EXPECT_EQ(chosen({"block_0.onnx", "lm.onnx", "onnx/model.onnx"}), "");
}

TEST(FindModel, ListsWhatIsThereInstead) {
  EXPECT_THAT(chosen({"onnx/text.onnx", "a.onnx"}), HasSubstr("it has a.onnx, onnx/text.onnx"));
  EXPECT_THAT(chosen({"tokenizer.json"}), HasSubstr("neither block_0.onnx nor model.onnx"));
  EXPECT_THAT(chosen({"modeling.onnx"}), HasSubstr("it has modeling.onnx"));
}

TEST(FindModel, NamesWhatABundleLacks) {
  EXPECT_EQ(chosen({"libtiny.a", "tiny.h", "tiny.cmake", "src/model.cpp"}),
            "damaged bundle: it has libtiny.a and tiny.h, but no tiny.plan.json");
  EXPECT_THAT(chosen({"libtiny.a", "tiny.cmake"}), HasSubstr("neither block_0.onnx"));
  EXPECT_THAT(chosen({"libtiny.a", "tiny.h"}), HasSubstr("neither block_0.onnx"));
  EXPECT_THAT(chosen({"libtiny.a", "tiny.h", "tiny.cmake", "model.safetensors"}),
              HasSubstr("it has model.safetensors"));
}

/// The diagnostic about a folder with these files.
Diagnostic folder_refusal(const testing::TemporaryFolder& folder,
                          const std::vector<std::string>& names) {
  touch(folder.path(), names);
  const auto found = find_model(folder.path());
  EXPECT_FALSE(found.ok());
  return found.ok() ? Diagnostic() : found.error().first();
}

TEST(FindModel, SaysHowAModelInAnotherFormatIsExported) {
  {
    const testing::TemporaryFolder folder;
    const Diagnostic d = folder_refusal(folder, {"config.json", "model.safetensors"});
    EXPECT_THAT(d.message, HasSubstr("it has model.safetensors, but llmc reads ONNX"));
    EXPECT_THAT(d.hint, HasSubstr("optimum-cli export onnx --model " + folder.path().string() +
                                  " --task text-generation-with-past "));
  }
  {
    const testing::TemporaryFolder folder;
    const Diagnostic d = folder_refusal(folder, {"tiny-q4_k_m.gguf"});
    EXPECT_THAT(d.message, HasSubstr("tiny-q4_k_m.gguf"));
    EXPECT_THAT(d.hint, HasSubstr("--model NAME_OR_FOLDER"));
  }
  const testing::TemporaryFolder folder;
  fs::create_directory(folder.path() / "onnx");
  EXPECT_THAT(folder_refusal(folder, {"config.json"}).hint, HasSubstr("optimum-cli"));
}

TEST(FindModel, NamesTheSnapshotsOfACacheEntry) {
  const testing::TemporaryFolder folder;
  const Diagnostic d = folder_refusal(folder, {"snapshots/0123/onnx/model.onnx", "refs/main"});
  EXPECT_THAT(d.hint, HasSubstr((folder.path() / "snapshots/0123").string()));
}

TEST(FindModel, NamesTheBundlesOfAFolder) {
  {
    const testing::TemporaryFolder folder;
    const Diagnostic d =
        folder_refusal(folder, {"m-avx2/m.plan.json", "m-lasx/m.plan.json", "other/notes.json"});
    EXPECT_THAT(d.message, HasSubstr((folder.path() / "m-lasx").string()));
    EXPECT_THAT(d.message, ::testing::Not(HasSubstr("other")));
    EXPECT_EQ(d.hint, "commands that run a compiled model take the path of one of them");
  }
  const testing::TemporaryFolder folder;
  EXPECT_THAT(folder_refusal(folder, {"stage-0/m.plan.json", "stage-1/m.plan.json"}).hint,
              HasSubstr("mpirun -n 2 llmc-mpi-run run " + folder.path().string()));
}

TEST(ImportModel, NamesOtherFormats) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](const char* name, std::string_view content) {
    EXPECT_TRUE(write_file(folder.path() / name, content).ok());
    const auto model = importer::import_model(folder.path() / name);
    EXPECT_FALSE(model.ok());
    return model.ok() ? Diagnostic() : model.error().first();
  };
  for (const char* const name : {"tiny.gguf", "tiny.onnx"}) {
    EXPECT_THAT(refused(name, "GGUF\x03").message, HasSubstr("is a GGUF file; llmc reads ONNX"));
    const Diagnostic pointer =
        refused(name, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    EXPECT_THAT(pointer.message, HasSubstr("is a Git LFS pointer"));
    EXPECT_THAT(pointer.hint, HasSubstr("git lfs pull"));
    const Diagnostic library = refused(name, "!<arch>\n/               0           0\n");
    EXPECT_THAT(library.message, HasSubstr("is a static library, not a model"));
    EXPECT_THAT(library.hint, HasSubstr("the folder of the library"));
  }
  for (const char* const name : {"pipe", "pipe.onnx"}) {
    ASSERT_EQ(::mkfifo((folder.path() / name).c_str(), 0600), 0);
    const auto pipe = importer::import_model(folder.path() / name);
    ASSERT_FALSE(pipe.ok());
    EXPECT_THAT(pipe.error().first().message, HasSubstr("not a regular file"));
    EXPECT_THAT(pipe.error().first().hint, HasSubstr("a pipe"));
  }
}

TEST(FindModel, AnEncoderDecoderHasThreeFiles) {
  for (const std::string folder : {"", "onnx/"}) {
    const testing::TemporaryFolder model;
    touch(model.path(),
          {folder + "encoder_model.onnx", folder + "encoder_model_quantized.onnx",
           folder + "decoder_model.onnx", folder + "decoder_with_past_model_fp16.onnx",
           folder + "decoder_with_past_model_q4.onnx"});
    const auto found = find_model(model.path());
    ASSERT_TRUE(found.ok()) << errors(found.error());
    ASSERT_TRUE(found->parts);
    EXPECT_EQ(found->folder, folder.empty() ? fs::path() : fs::path("onnx"));
    EXPECT_EQ(found->parts->encoder, "encoder_model.onnx");
    EXPECT_EQ(found->parts->first_decoder, "decoder_model.onnx");
    EXPECT_EQ(found->parts->decoder, "decoder_with_past_model_fp16.onnx");
    EXPECT_EQ(found->name, found->parts->decoder);
  }
}

TEST(FindModel, AnEncoderDecoderThatLacksAFileIsRefused) {
  const auto refused = [](const std::vector<std::string>& names) {
    const testing::TemporaryFolder model;
    touch(model.path(), names);
    for (const Error& error : {importer::import_model(model.path()).error(),
                               importer::inspect_model(model.path()).error()})
      EXPECT_EQ(error.first().message, find_model(model.path()).error().first().message);
    return find_model(model.path()).error().first();
  };
  const Diagnostic first = refused({"encoder_model.onnx", "decoder_with_past_model.onnx"});
  EXPECT_EQ(first.kind, ErrorKind::kBadInput);
  EXPECT_EQ(first.message, "an encoder-decoder without decoder_model.onnx");
  EXPECT_THAT(first.hint, HasSubstr("text2text-generation-with-past"));
  EXPECT_EQ(refused({"encoder_model.onnx", "decoder_model.onnx"}).message,
            "an encoder-decoder without decoder_with_past_model.onnx");
  EXPECT_THAT(refused({"encoder_model.onnx"}).hint, HasSubstr("decoder_model_merged.onnx"));
}

TEST(FindModel, AGraphBelowIsImportedAndInspected) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder.path() / "onnx");
  testing::OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{2}});
  b.node("Relu", {"x"}, {}, "y");
  b.float_output("y", {std::int64_t{2}});
  b.save(folder.path() / "onnx/model.onnx");
  const auto model = importer::import_model(folder.path());
  ASSERT_TRUE(model.ok()) << errors(model.error());
  EXPECT_EQ(model->graph().nodes().size(), 1u);
  const auto inspected = importer::inspect_model(folder.path());
  ASSERT_TRUE(inspected.ok());
  ASSERT_EQ(inspected->onnx.size(), 1u);
  EXPECT_EQ(inspected->onnx[0].operators.at("Relu"), 1);

  ASSERT_TRUE(write_file(folder.path() / "onnx/model.onnx", std::string_view("?")).ok());
  const auto damaged = importer::import_model(folder.path());
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().first().file, (folder.path() / "onnx/model.onnx").string());

  // A folder of graphs that a link leads to is not the model's.
  const testing::TemporaryFolder elsewhere;
  fs::rename(folder.path() / "onnx", elsewhere.path() / "onnx");
  fs::create_directory_symlink(elsewhere.path() / "onnx", folder.path() / "onnx");
  const auto led_out = importer::import_model(folder.path());
  ASSERT_FALSE(led_out.ok());
  EXPECT_THAT(led_out.error().first().message, HasSubstr("outside the model's folder"));
}

TEST(FindModel, ASnapshotOfHuggingFacesCacheIsAFolderOfLinks) {
  const testing::TemporaryFolder hub;
  const fs::path repository = hub.path() / "models--ACME--Relu-1B";
  const fs::path snapshot = repository / "snapshots/93efa2f0", graph = snapshot / "onnx/model.onnx";
  fs::create_directories(repository / "blobs");
  fs::create_directories(graph.parent_path());
  testing::OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{32}});
  b.node("Add", {"x", b.floats("w", {32}, std::vector<float>(32, 0.5f))}, {}, "y");
  b.float_output("y", {std::int64_t{32}});
  b.save(hub.path() / "model.onnx", /*external=*/true);
  fs::rename(hub.path() / "model.onnx", repository / "blobs/1f");
  fs::rename(hub.path() / "model.onnx.data", repository / "blobs/2e");
  fs::create_symlink("../../../blobs/1f", graph);
  fs::create_symlink("../../../blobs/2e", snapshot / "onnx/model.onnx.data");
  for (const fs::path& path : {snapshot, graph}) {
    const auto model = importer::import_model(path);
    ASSERT_TRUE(model.ok()) << path << errors(model.error());
    const auto inspected = importer::inspect_model(path);
    ASSERT_TRUE(inspected.ok() && inspected->model.has_value()) << path;
    EXPECT_EQ(inspected->onnx.at(0).file, "model.onnx");
  }
  // Elsewhere than into blobs/ a link is not followed.
  fs::rename(repository / "blobs", repository / "others");
  fs::create_directory_symlink(repository / "others", repository / "blobs");
  EXPECT_FALSE(importer::import_model(snapshot).ok());
}

}  // namespace
}  // namespace llmc
