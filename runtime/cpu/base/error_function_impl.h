// The error function on floats, for loops that are compiled once for each instruction set: T is a float or a vector of them.
#pragma once

namespace rewright::cpu {
namespace {

// For |x| <= 4: an odd rational function, fitted on |x| < 3.925; beyond that the nearest float is 1. Errors are below 6 units
// in the last place.
template <class T>
inline T error_function_within(T x) {
  const T z = x * x;
  T p = z * -2.72614225801306e-10f + 2.77068142495902e-08f;
  p = p * z + -2.10102402082508e-06f;
  p = p * z + -5.69250639462346e-05f;
  p = p * z + -7.34990630326855e-04f;
  p = p * z + -2.95459980854025e-03f;
  p = p * z + -1.60960333262415e-02f;
  T q = z * -1.45660718464996e-05f + -2.13374055278905e-04f;
  q = q * z + -1.68282697438203e-03f;
  q = q * z + -7.37332916720468e-03f;
  q = q * z + -1.42647390514189e-02f;
  return x * (p / q);
}

}  // namespace
}  // namespace rewright::cpu
