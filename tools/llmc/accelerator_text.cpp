#include "tools/llmc/accelerator_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/support/counted.h"

namespace llmc::cli {
namespace {

/// Returns the rows with their types: "x f32[128, 192], attended_codes u8[128, 320]".
std::string shapes_text(const Json& rows) {
  std::string text;
  for (const Json& row : rows)
    text += fmt::format("{}{} {}[{}, {}]", text.empty() ? "" : ", ",
                        printable(row.at("buffer").get<std::string>(), 40),
                        printable(row.at("element").get<std::string>(), 10),
                        row.at("shape").at(0).get<std::uint64_t>(),
                        row.at("shape").at(1).get<std::uint64_t>());
  return text;
}

}  // namespace

std::string regions_text(const Json& plan) {
  const Json& accelerator = plan.at("accelerator");
  const auto number = [](const Json& json, const char* name) {
    return json.at(name).get<std::uint64_t>();
  };
  const std::uint64_t chunk = number(plan.at("options"), "chunk");
  std::string text = fmt::format(
      "accelerator {}: {:.1f} % of the multiply-adds of matrix products; per chunk of {} {} "
      "to the device and {} back\n",
      printable(accelerator.at("device").get<std::string>(), 40),
      100.0 * static_cast<double>(number(accelerator, "multiply_adds")) /
          static_cast<double>(std::max<std::uint64_t>(number(accelerator, "all_multiply_adds"), 1)),
      counted(chunk, "token"), human_bytes(chunk * number(accelerator, "to_device")),
      human_bytes(chunk * number(accelerator, "from_device")));
  std::size_t index = 0;
  for (const Json& region : accelerator.at("regions")) {
    text += fmt::format(
        "  region {:<3} {} x  {} -> {}, {} of weights: {}\n", ++index, number(region, "count"),
        shapes_text(region.at("inputs")), shapes_text(region.at("outputs")),
        human_bytes(number(region, "weights")),
        printable(fmt::format(
                      "{}", fmt::join(region.at("products").get<std::vector<std::string>>(), ", ")),
                  80));
  }
  return text;
}

std::string schedule_text(const plan::Schedule& s) {
  const auto ms = [](double ns) { return ns / 1e6; };
  return fmt::format(
      "timeline    a prompt of {} in {} of {}, with declared costs\n{}"
      "  total     {:.3f} ms, {:.2f} x the bound of {:.3f} ms; device busy {:.0f} %, cpu {:.0f} %\n"
      "  overlap   {:.2f} x as fast as one after the other ({:.3f} ms + {:.3f} ms), {:.2f} x as "
      "fast as the CPU alone\n"
      "  attention {:.3g} multiply-adds in chunks, {:.3g} of all tokens to all\n",
      counted(s.tokens, "token"), counted(s.chunks, "chunk"), s.chunk, plan::timeline_text(s),
      ms(s.total), s.total / s.bound, ms(s.bound), 100 * s.device / s.total, 100 * s.cpu / s.total,
      (s.cpu + s.device) / s.total, ms(s.cpu), ms(s.device), s.cpu_alone / s.total,
      s.attention_chunks, s.attention_whole);
}

Json schedule_json(const plan::Schedule& s) {
  return {{"tokens", s.tokens},
          {"chunks", s.chunks},
          {"total_ns", s.total},
          {"bound_ns", s.bound},
          {"cpu_ns", s.cpu},
          {"device_ns", s.device},
          {"cpu_alone_ns", s.cpu_alone},
          {"attention_whole", s.attention_whole},
          {"attention_chunks", s.attention_chunks}};
}

void add_opencl_device(CLI::App& app, std::string& part) {
  app.add_option("--opencl-device", part,
                 "With --accelerate opencl: a part of the device's name (default: the first GPU, "
                 "else the first device)")
      ->type_name("TEXT");
}

std::string device_text(const exec::DeviceUse& device) {
  return fmt::format("accelerator {}: {}, {} of rows copied", device.name,
                     counted(device.jobs, "job"), human_bytes(device.copied_bytes));
}

Json device_json(const exec::DeviceUse& device) {
  return {{"name", device.name}, {"jobs", device.jobs}, {"copied_bytes", device.copied_bytes}};
}

}  // namespace llmc::cli
