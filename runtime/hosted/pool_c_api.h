#pragma once

#include <memory>

#include "llmc/hosted.h"
#include "runtime/hosted/thread_pool.h"

struct llmc_pool {
  std::unique_ptr<llmc::hosted::ThreadPool> pool;
};
