// Put before every C++ file of the build: std::format for a standard library without <format> (GCC before 13).
// Only bare "{}" fields are replaced, which is all that mlx-c uses; other text is copied as it stands.
#pragma once

#include <version>

#ifdef __cpp_lib_format
#include <format>
#else
#include <sstream>
#include <string>
#include <string_view>

namespace std {

inline void format_fields_(ostringstream& out, string_view pattern) {
  out << pattern;
}

template <class First, class... Rest>
void format_fields_(
    ostringstream& out,
    string_view pattern,
    const First& first,
    const Rest&... rest) {
  const auto field = pattern.find("{}");
  out << pattern.substr(0, field);
  if (field != string_view::npos) {
    out << first;
    format_fields_(out, pattern.substr(field + 2), rest...);
  }
}

template <class... Fields>
string format(string_view pattern, const Fields&... fields) {
  ostringstream out;
  format_fields_(out, pattern, fields...);
  return out.str();
}

} // namespace std
#endif
