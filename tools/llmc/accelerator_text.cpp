#include "tools/llmc/accelerator_text.h"

#include <fmt/format.h>

#include "compiler/support/counted.h"

namespace llmc::cli {

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
