#pragma once

/// All kernels that emitted functions call.
#include "llmc/function/attention.h"
#include "llmc/function/matmul.h"
#include "llmc/function/move.h"
#include "llmc/function/reduce.h"
