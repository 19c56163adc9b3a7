// The two kinds of failure that are exceptions. Not fitting into memory is neither: it is a result.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tidemark {

// A place in a user's file. Lines and columns count from 1; 0 means unknown.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
};

// A mistake of the user. Caught once, in cli/, which prints what() and exits with 2.
// what() reads "file:line:col: path: problem", with the parts that are known.
class UserError : public std::runtime_error {
 public:
  UserError(Location location, std::string path, std::string problem);
  explicit UserError(std::string problem) : UserError({}, {}, std::move(problem)) {}

  [[nodiscard]] const Location& location() const { return location_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  Location location_;
  std::string path_;
  std::string problem_;
};

// A broken invariant of Tidemark itself; the message names the tensor and the operator. Exit 3.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Returns the user's text as a message may show it: control characters escaped, cut to about 60
// bytes.
[[nodiscard]] std::string excerpt(std::string_view text);
// Returns excerpt(text) in quotes: 'many'.
[[nodiscard]] std::string quoted_excerpt(std::string_view text);

}  // namespace tidemark
