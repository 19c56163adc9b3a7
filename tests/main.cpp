// Runs the tests; the last line is `N passed, N failed`, counted in test cases.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace {

struct Tally {
  unsigned passed = 0;
  unsigned failed = 0;
};

// The tally of the finished run; empty when doctest only answered a query such as
// --list-test-cases. doctest constructs its listeners itself, so their figures can leave only
// through here.
std::optional<Tally>& tally() {
  static std::optional<Tally> last_run;
  return last_run;
}

class TallyListener final : public doctest::IReporter {
 public:
  explicit TallyListener(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& run) override {
    const unsigned failed = run.numTestCasesFailed;
    tally() = Tally{.passed = started_ - failed, .failed = failed};
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  // Counts the started test cases: of those that pass the filters, --first and --last run only
  // some.
  void test_case_start(const doctest::TestCaseData&) override { ++started_; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  unsigned started_ = 0;
};

// Our test names are sentences. doctest splits a filter at commas unless they are escaped, and its
// CMake script asks for the suite of a test without escaping: a comma before a blank is a name's.
std::string escape_sentence_commas(std::string_view argument) {
  std::string escaped;
  for (std::size_t i = 0; i < argument.size(); ++i) {
    const bool in_sentence = argument[i] == ',' && argument.substr(i + 1).starts_with(' ');
    if (in_sentence && !escaped.ends_with('\\')) escaped += '\\';
    escaped += argument[i];
  }
  return escaped;
}

}  // namespace

REGISTER_LISTENER("tally", 1, TallyListener);

int main(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i)
    arguments.push_back(escape_sentence_commas(argv[i]));
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments)
    pointers.push_back(argument.c_str());

  doctest::Context context(argc, pointers.data());
  int exit_code = context.run();
  if (const std::optional<Tally> result = tally()) {
    if (result->passed + result->failed == 0) {
      std::cerr << "no test matches the filters\n";
      exit_code = EXIT_FAILURE;
    }
    std::cout << result->passed << " passed, " << result->failed << " failed" << std::endl;
  }
  return exit_code;
}
