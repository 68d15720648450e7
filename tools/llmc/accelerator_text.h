#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/exec/session.h"
#include "compiler/plan/schedule.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

/// Returns a text about the accelerator's regions in a plan.json: each region, and the bytes per
/// chunk that are copied to and from the device.
std::string regions_text(const Json& plan);
/// Returns the timeline of a prompt on the CPU and a device as text, with its total times.
std::string schedule_text(const plan::Schedule& schedule);
/// Adds --opencl-device, for commands that execute code. `part`: a part of the device's name.
void add_opencl_device(CLI::App& app, std::string& part);
/// Returns "accelerator opencl, PLATFORM: DEVICE: 14 jobs, 0 B of rows copied".
std::string device_text(const exec::DeviceUse& device);
Json device_json(const exec::DeviceUse& device);
Json schedule_json(const plan::Schedule& schedule);

}  // namespace llmc::cli
