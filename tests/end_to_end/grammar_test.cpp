// Texts held to a grammar: by `llmc run` and `chat`, on every target, and by what was compiled in.
// What came out is checked by other means than those that held it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/driver/grammar_source.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "llmc/hosted.h"
#include "runtime/hosted/grammar/model_vocabulary.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;
using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kList =
    "# a list of things and how many\n"
    "root ::= item (\", \" item){0,2} \".\"\n"
    "item ::= [a-z]{2,6} \"=\" ([1-9] [0-9]? | \"viele \\u00c4pfel\")\n";
const char* const kListRegex =
    "[a-z]{2,6}=([1-9][0-9]?|viele \u00c4pfel)(, [a-z]{2,6}=([1-9][0-9]?|viele "
    "\u00c4pfel)){0,2}\\.";

const char* const kSchema = R"({
  "type": "object",
  "properties": {
    "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,7}$"},
    "kind": {"enum": ["cat", "dog", 7, null]},
    "small": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2}
  },
  "required": ["name", "kind", "small"],
  "additionalProperties": false
})";

/// Whether a document is as kSchema says, by hand.
void expect_fits(const Json& document) {
  ASSERT_TRUE(document.is_object()) << document;
  for (const auto& [key, value] : document.items()) {
    if (key == "name") {
      ASSERT_TRUE(value.is_string()) << document;
      EXPECT_TRUE(std::regex_match(value.get<std::string>(), std::regex("[A-Z][a-z]{1,7}")));
    } else if (key == "kind") {
      EXPECT_TRUE(value == "cat" || value == "dog" || value == 7 || value.is_null()) << document;
    } else if (key == "small") {
      EXPECT_TRUE(value.is_boolean()) << document;
    } else if (key == "tags") {
      ASSERT_TRUE(value.is_array()) << document;
      EXPECT_LE(value.size(), 2u);
      for (const Json& tag : value) EXPECT_TRUE(tag.is_string()) << document;
    } else {
      ADD_FAILURE() << "a property that is not allowed: " << document;
    }
  }
  for (const char* const key : {"name", "kind", "small"}) EXPECT_TRUE(document.contains(key));
}

/// A bundle of the shipped model is made once for all tests.
class GrammarCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    suite_folder_ = new testing::TemporaryFolder;
    setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
    unsetenv("LLMC_EMULATOR");
    Arguments argv{"compile", tinyfable().string(), "-o", bundle(), "-q"};
    const Arguments fixed = compilation("generic");
    argv.insert(argv.end(), fixed.begin(), fixed.end());
    const ProgramRun compiled = llmc(argv);
    ASSERT_EQ(compiled.code, 0) << compiled.err;
  }
  static void TearDownTestSuite() { delete std::exchange(suite_folder_, nullptr); }

  static std::string bundle() { return (suite_folder_->path() / "plain").string(); }
  /// A file of this test.
  std::string file(const std::string& name, const std::string& text) {
    const fs::path path = folder_.path() / name;
    const Status written = write_file(path, text);
    if (!written.ok()) expect_ok(written.error());
    return path.string();
  }
  static Arguments compilation(const std::string& target) {
    return {"--ctx", "192", "--threads-max", "4", "--cflag=-O0", "--target", target};
  }
  /// `run --json` of a model, with what decides how it is compiled, or of a bundle.
  static Json run(const std::string& model, const Arguments& more,
                  const Arguments& compilation = {}) {
    Arguments argv{"run", model, "-p", "Once upon a time", "-q", "--json"};
    argv.insert(argv.end(), compilation.begin(), compilation.end());
    argv.insert(argv.end(), more.begin(), more.end());
    const Arguments usual[] = {{"-n", "80"}, {"--seed", "5"}, {"--temp", "1"}};
    for (const Arguments& option : usual) {
      if (std::ranges::find(more, option[0]) == more.end())
        argv.insert(argv.end(), option.begin(), option.end());
    }
    const ProgramRun output = llmc(argv);
    if (output.code != 0) {
      ADD_FAILURE() << output.err;
      return {};
    }
    Json json = Json::parse(last_line(output.out), nullptr, false);
    for (const char* varies : {"target", "prompt_tokens_per_second", "tokens_per_second"})
      json.erase(varies);
    return json;
  }

  testing::TemporaryFolder folder_;
  static testing::TemporaryFolder* suite_folder_;
};
testing::TemporaryFolder* GrammarCommand::suite_folder_ = nullptr;

TEST_F(GrammarCommand, HoldsTextsToAGrammar) {
  const std::string list = file("list.gbnf", kList);
  std::set<std::string> texts;
  for (const char* const seed : {"1", "2", "3", "4"}) {
    const Json result = run(bundle(), {"--grammar", list, "--seed", seed});
    const std::string text = result.value("text", "");
    EXPECT_TRUE(std::regex_match(text, std::regex(kListRegex))) << text;
    EXPECT_EQ(result.value("stopped", ""), "grammar");
    EXPECT_TRUE(result.value("complete", false));
    texts.insert(text);
  }
  EXPECT_GT(texts.size(), 1u) << "the model chooses";
  // The text itself in place of a file, and an end that is not the grammar's.
  const Json itself = run(bundle(), {"--grammar", kList, "--seed", "1"});
  EXPECT_TRUE(texts.contains(itself.value("text", "")));
  const Json cut = run(bundle(), {"--grammar-file", list, "-n", "3"});
  EXPECT_EQ(cut.value("stopped", ""), "length");
  EXPECT_FALSE(cut.value("complete", true));
  // Where the text may end or go on, the model decides, but with --ignore-eos.
  const Json open = run(bundle(), {"--grammar", "root ::= \".\"+", "-n", "20", "--ignore-eos"});
  EXPECT_EQ(open.value("text", "").find_first_not_of('.'), std::string::npos);
  EXPECT_EQ(open["ids"].size(), 20u);
  EXPECT_TRUE(open.value("complete", false));
}

TEST_F(GrammarCommand, HoldsTextsToAJsonSchema) {
  const std::string schema = file("schema.json", kSchema);
  std::set<std::string> texts;
  for (const char* const seed : {"1", "2", "3", "4"}) {
    const Json result = run(bundle(), {"-jf", schema, "--seed", seed});
    ASSERT_TRUE(result.value("complete", false)) << result;
    texts.insert(result.value("text", ""));
    const Json document = Json::parse(result.value("text", ""), nullptr, false);
    ASSERT_FALSE(document.is_discarded()) << result;
    expect_fits(document);
  }
  EXPECT_GT(texts.size(), 1u);
  EXPECT_EQ(run(bundle(), {"--json-schema", schema}), run(bundle(), {"-j", kSchema}));
}

TEST_F(GrammarCommand, TextsAreTheSameUnderAnEmulator) {
  const Arguments held{"-j", file("schema.json", kSchema)};
  const Json here = run(bundle(), held);
  ASSERT_TRUE(here.value("complete", false)) << here;
  if (!executable(**target::find("arm64")))
    LLMC_MISSING_CROSS(without_emulator(**target::find("arm64")));
  EXPECT_EQ(run(tinyfable().string(), held, compilation("arm64")), here);
}

TEST_F(GrammarCommand, IsCompiledIn) {
  const std::string schema = file("schema.json", kSchema), out = (folder_.path() / "b").string();
  Arguments argv{"compile", tinyfable().string(), "-o", out, "--json-schema", schema, "--json"};
  const bool avx2 = executable(**target::find("avx2"));
  const Arguments fixed = compilation(avx2 ? "avx2" : "generic");
  argv.insert(argv.end(), fixed.begin(), fixed.end());
  const ProgramRun compiled = llmc(argv);
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  const Json plan = Json::parse(compiled.out)["plan"];
  const auto bytes = plan["grammar"].value("bytes", std::uint64_t{0});
  EXPECT_GT(bytes, 1000u);
  EXPECT_EQ(plan["grammar"]["kind"], "json-schema");
  const auto header = read_file(fs::path(out) / "tinyfable.h");
  ASSERT_TRUE(header.ok());
  EXPECT_THAT(*header, HasSubstr("#define TINYFABLE_GRAMMAR_BYTES " + std::to_string(bytes) + "u"));

  // A run of the bundle is held to it, in this process and in another one, and chooses what other
  // targets do.
  const Json given = run(bundle(), {"-j", schema});
  ASSERT_TRUE(given.value("complete", false)) << given;
  EXPECT_EQ(run(out, {}), given);
  EXPECT_EQ(run(out, {"--emulator", "env"}), given);
  const Json without = run(out, {"--no-grammar", "-n", "12"});
  EXPECT_FALSE(without.contains("complete"));
  EXPECT_NE(without["ids"], given["ids"]);
  const std::string other = run(out, {"--grammar", kList}).value("text", "");
  EXPECT_TRUE(std::regex_match(other, std::regex(kListRegex))) << other;

  // A program without llmc: the example. It chooses greedily.
  const std::string programs = (folder_.path() / "programs").string();
  const auto built = run_command({"env", "LLMC_HOSTED=" LLMC_BINARY_DIR "/libllmc_hosted.a",
                                  "LLMC_INCLUDE=" LLMC_SOURCE_DIR "/runtime/include", "sh",
                                  LLMC_SOURCE_DIR "/docs/examples/embed/build.sh", out, programs});
  ASSERT_TRUE(built.ok() && built->exit_code == 0) << (built.ok() ? built->standard_error : "");
  Arguments example{programs + "/embed_grammar", "80"};
  for (const Json& id : given["prompt_ids"]) example.push_back(std::to_string(id.get<int>()));
  const auto printed = run_command(example);
  ASSERT_TRUE(printed.ok());
  EXPECT_EQ(printed->exit_code, 0) << printed->standard_error;
  std::istringstream lines(printed->standard_output);
  const std::vector<std::int32_t> ids{std::istream_iterator<std::int32_t>(lines), {}};
  EXPECT_EQ(Json(ids), run(out, {"--temp", "0"})["ids"]);
  // The example that compiles the schema itself writes the same text, with the tables that are in
  // the library.
  const std::string tokenizer = out + "/tinyfable.tokenizer.bin";
  const auto document =
      run_command({programs + "/embed_schema", "80", "Once upon a time", schema, tokenizer});
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->exit_code, 0) << document->standard_error;
  EXPECT_EQ(Json::parse(document->standard_output),
            Json::parse(run(out, {"--temp", "0"}).value("text", "")));
  const auto library = read_file(fs::path(out) / "libtinyfable.a");
  ASSERT_TRUE(library.ok());
  llmc_tokenizer* loaded = nullptr;
  ASSERT_EQ(llmc_tokenizer_load(tokenizer.c_str(), &loaded, nullptr, 0), LLMC_OK);
  const void* tables = nullptr;
  std::size_t tables_bytes = 0;
  EXPECT_EQ(llmc_grammar_compile(loaded, LLMC_GRAMMAR_JSON_SCHEMA, kSchema, std::strlen(kSchema),
                                 nullptr, &tables, &tables_bytes, nullptr, 0),
            LLMC_OK);
  EXPECT_EQ(tables_bytes, bytes);
  EXPECT_NE(library->find({static_cast<const char*>(tables), tables_bytes}), std::string::npos);
  llmc_grammar_tables_free(tables);
  llmc_tokenizer_free(loaded);
  // What builds the library again keeps the tables.
  const auto script = read_file(fs::path(out) / "src/build.sh");
  ASSERT_TRUE(script.ok());
  EXPECT_THAT(*script, AllOf(HasSubstr("x ../libtinyfable.a tinyfable_grammar.o"),
                             HasSubstr(" tinyfable_grammar.o tinyfable_weights.o")));
}

TEST_F(GrammarCommand, HoldsEachAnswerOfAConversation) {
  const std::string said = file("said", "Once upon a time\nThere was a dog.\n");
  const auto ran =
      run_command({"sh", "-c", "exec \"$0\" chat \"$@\" < '" + said + "'", LLMC_PROGRAM, bundle(),
                   "--temp", "1", "--seed", "3", "-j", kSchema, "--json"});
  ASSERT_TRUE(ran.ok());
  ASSERT_EQ(ran->exit_code, 0) << ran->standard_error;
  std::istringstream lines(ran->standard_output);
  int answers = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json answer = Json::parse(line, nullptr, false);
    ASSERT_TRUE(answer.is_object()) << line;
    if (!answer.contains("text")) continue;
    ++answers;
    EXPECT_EQ(answer.value("stopped", ""), "grammar") << line;
    const Json document = Json::parse(answer.value("text", ""), nullptr, false);
    ASSERT_FALSE(document.is_discarded()) << line;
    expect_fits(document);
  }
  EXPECT_EQ(answers, 2) << ran->standard_output;
}

TEST_F(GrammarCommand, SaysWhatIsWrong) {
  const auto refused = [&](int code, const Arguments& more) {
    Arguments argv{"run", bundle(), "-p", "x"};
    argv.insert(argv.end(), more.begin(), more.end());
    const ProgramRun output = llmc(argv);
    EXPECT_EQ(output.code, code) << output.err;
    EXPECT_EQ(output.out, "");
    return output.err;
  };
  const std::string bad = file("bad.gbnf", "root ::= item\nitem ::= \"a\" | nothing\n");
  EXPECT_THAT(refused(3, {"--grammar", bad}),
              AllOf(HasSubstr("bad.gbnf: line 2, column 16: rule 'nothing' is used"),
                    HasSubstr("hint: define it: nothing ::= ")));
  EXPECT_THAT(refused(3, {"--grammar", "root ::= \"a"}),
              HasSubstr("--grammar: line 1, column 12: a '\"' is missing"));
  const std::string schema =
      file("schema.json", R"({"properties": {"a": {"type": "array", "uniqueItems": true}},
                              "type": "object"})");
  EXPECT_THAT(refused(4, {"--json-schema", schema}),
              HasSubstr("schema.json: #/properties/a: 'uniqueItems' is not supported"));
  EXPECT_THAT(refused(3, {"-j", "{\"type\": 3}"}), HasSubstr("--json-schema: #: "));
  EXPECT_THAT(refused(3, {"-j", "{\"type\": 3}"}), HasSubstr("hint: docs/grammar.md"));
  EXPECT_THAT(refused(3, {"-j", "{\"type\": "}), HasSubstr("invalid JSON: parse error at line 1"));
  EXPECT_THAT(refused(3, {"--grammar", folder_.path() / "none.gbnf"}), HasSubstr("none.gbnf"));
  EXPECT_THAT(refused(4, {"--grammar", "root ::= <think>"}), HasSubstr("tokens as parts"));
  refused(2, {"--grammar", kList, "-j", "{}"});
  refused(2, {"--grammar", kList, "--no-grammar"});

  // A model without a tokenizer writes ids, and a grammar is about text.
  const fs::path model = folder_.path() / "model";
  fs::copy(tinyfable(), model, fs::copy_options::recursive);
  for (const char* const name : {"tokenizer.txt", "tokenizer.model"}) fs::remove(model / name);
  const fs::path out = folder_.path() / "refused";
  const ProgramRun output =
      llmc({"compile", model.string(), "-o", out.string(), "--grammar", kList});
  EXPECT_EQ(output.code, 3) << output.err;
  EXPECT_THAT(output.err, HasSubstr("needs the model's tokenizer"));
  // Nothing is written for a grammar that is refused.
  EXPECT_EQ(llmc({"compile", tinyfable().string(), "-o", out.string(), "--grammar", bad}).code, 3);
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(GrammarCommand, TablesOfAnotherVocabularyAreRefused) {
  driver::CompileOptions options;
  options.model = bundle();
  const auto native = load(options);
  ASSERT_NE(native, nullptr);
  auto tokenizer = hosted::Tokenizer::load(tinyfable() / "tokenizer.txt");
  ASSERT_TRUE(tokenizer.ok());
  hosted::grammar::Vocabulary vocabulary =
      hosted::grammar::model_vocabulary(**tokenizer, native->model().vocab, {});
  const driver::GrammarSource source{driver::GrammarSource::Kind::kGbnf, kList, "list"};
  const auto parsed = driver::parse_grammar(source);
  ASSERT_TRUE(parsed.ok());
  auto session = native->start(1);
  ASSERT_TRUE(session.ok());
  const auto own = hosted::grammar::build_tables(*parsed, vocabulary);
  ASSERT_TRUE(own.ok());
  const Status taken = (*session)->set_grammar(own->bytes);
  if (!taken.ok()) expect_ok(taken.error());
  std::swap(vocabulary.tokens[400], vocabulary.tokens[401]);
  const auto other = hosted::grammar::build_tables(*parsed, vocabulary);
  ASSERT_TRUE(other.ok());
  const Status status = (*session)->set_grammar(other->bytes);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().first().kind, ErrorKind::kBadInput);
  EXPECT_THAT(status.error().first().message, HasSubstr("vocabulary of another model"));
  std::string damaged = own->bytes;
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_FALSE((*session)->set_grammar(damaged).ok());
}

}  // namespace
}  // namespace llmc::tests
#endif
