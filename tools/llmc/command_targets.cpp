#include <fmt/format.h>

#include "compiler/target/target.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {
namespace {

std::string lacking(const target::Target& t) {
  std::string result;
  for (const target::Feature feature : target::missing_here(t)) {
    if (!result.empty()) result += ", ";
    result += target::to_string(feature);
  }
  return result.empty() ? "another architecture" : "this CPU lacks " + result;
}

int targets(const Globals& globals) {
  Json list = Json::array();
  for (const target::Target& t : target::all()) {
    const bool runs = target::runs_here(t);
    if (globals.json) {
      Json row{{"name", t.name},
               {"aliases", t.aliases},
               {"triple", t.triple},
               {"description", t.description},
               {"features", Json::array()},
               {"lanes", t.lanes},
               {"runs_here", runs}};
      for (const target::Feature feature : t.features)
        row["features"].push_back(target::to_string(feature));
      list.push_back(std::move(row));
    } else {
      print(fmt::format("{:<8} {:<22} {}\n{:<8} {}\n", t.name, t.triple, t.description, "",
                        runs ? "runs here" : "does not run here: " + lacking(t)));
    }
  }
  if (globals.json) print_json(list);
  return 0;
}

}  // namespace

Action add_targets(CLI::App&, const Globals& globals) {
  return [&globals] { return targets(globals); };
}

}  // namespace llmc::cli
