#pragma once

/// Includes all kernels of loop nests, for emitted functions.
#include "llmc/function/attention.h"
#include "llmc/function/conv.h"
#include "llmc/function/matmul.h"
#include "llmc/function/move.h"
#include "llmc/function/reduce.h"
