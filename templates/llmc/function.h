#pragma once

/// Everything an emitted function calls.
#include "llmc/function/attention.h"
#include "llmc/function/matmul.h"
#include "llmc/function/move.h"
#include "llmc/function/reduce.h"
