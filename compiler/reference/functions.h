#pragma once

/// Elementary functions in double from additions, multiplications, divisions and comparisons only,
/// so that constants and calibrations are the same bits on every host, whatever its libm; powers
/// and logarithms are not among them. The error is a few units in the last place of a double.
namespace llmc::reference {

double exact_exp(double x);
double exact_tanh(double x);
double exact_erf(double x);
/// For |x| of 2^22 or more they are those of libm.
double exact_sin(double x);
double exact_cos(double x);

}  // namespace llmc::reference
