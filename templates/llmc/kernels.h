#pragma once

/// Includes all kernels, for emitted models (README.md).
#include "llmc/kernels/argmax.h"
#include "llmc/kernels/attention.h"
#include "llmc/kernels/choose.h"
#include "llmc/kernels/elementwise.h"
#include "llmc/kernels/embedding.h"
#include "llmc/kernels/experts.h"
#include "llmc/kernels/kv_state.h"
#include "llmc/kernels/linear.h"
