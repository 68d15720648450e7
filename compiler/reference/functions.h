#pragma once

/// Elementary functions in double that do not use libm, so that constants and calibrations have the
/// same bits on every host. They consist of additions, multiplications, divisions, comparisons and
/// rounding. The error is a few units in the last place of a double. Powers and logarithms are not
/// included.
namespace llmc::reference {

double exact_exp(double x);
double exact_tanh(double x);
double exact_erf(double x);
/// exact_sin() and exact_cos() call libm if |x| is at least 2^22.
double exact_sin(double x);
double exact_cos(double x);

}  // namespace llmc::reference
