#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_
/// dmlc/logging.h: LOG, CHECK and their kin, for programs that have no dmlc-core. Who has it puts
/// its folder first: the guard is the same. A fatal line throws dmlc::Error.
#include <cstdio>
#include <ctime>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

namespace dmlc {

struct __attribute__((visibility("default"))) Error : public std::runtime_error {
  explicit Error(const std::string& what) : std::runtime_error(what) {}
};

inline void InitLogging(const char* /*argv0*/) {}

/// One line on stderr: "[12:30:05] file.cc:7: text".
class LogMessage {
 public:
  LogMessage(const char* file, int line) {
    const std::time_t now = std::time(nullptr);
    std::tm parts;
    char clock[16] = "";
    if (localtime_r(&now, &parts) != nullptr)
      (void)std::strftime(clock, sizeof clock, "%H:%M:%S", &parts);
    text_ << "[" << clock << "] " << file << ":" << line << ": ";
  }
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;
  ~LogMessage() {
    text_ << "\n";
    (void)std::fputs(text_.str().c_str(), stderr);
  }
  std::ostringstream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

/// Throws at the end of its line.
class LogMessageFatal {
 public:
  LogMessageFatal(const char* file, int line) { text_ << file << ":" << line << ": "; }
  LogMessageFatal(const LogMessageFatal&) = delete;
  LogMessageFatal& operator=(const LogMessageFatal&) = delete;
  ~LogMessageFatal() noexcept(false) { throw Error(text_.str()); }
  std::ostringstream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

/// Makes both sides of a conditional void.
struct LogMessageVoidify {
  void operator&(std::ostream& /*stream*/) {}
};

using CheckFailure = std::unique_ptr<std::string>;
template <class A, class B>
inline CheckFailure check_failure(const A& a, const B& b) {
  std::ostringstream text;
  text << " (" << a << " vs. " << b << ") ";
  return CheckFailure(new std::string(text.str()));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#define DMLC_DEFINE_CHECK(name, op)                          \
  template <class A, class B>                                \
  inline CheckFailure check_##name(const A& a, const B& b) { \
    return a op b ? CheckFailure() : check_failure(a, b);    \
  }
DMLC_DEFINE_CHECK(lt, <)
DMLC_DEFINE_CHECK(gt, >)
DMLC_DEFINE_CHECK(le, <=)
DMLC_DEFINE_CHECK(ge, >=)
DMLC_DEFINE_CHECK(eq, ==)
DMLC_DEFINE_CHECK(ne, !=)
#undef DMLC_DEFINE_CHECK
#pragma GCC diagnostic pop

template <class T>
inline T check_not_null(const char* file, int line, const char* what, T pointer) {
  if (pointer == nullptr) LogMessageFatal(file, line).stream() << "Check notnull: " << what << ' ';
  return pointer;
}

}  // namespace dmlc

#define DMLC_LOG_INFO ::dmlc::LogMessage(__FILE__, __LINE__).stream()
#define DMLC_LOG_WARNING DMLC_LOG_INFO
#define DMLC_LOG_ERROR DMLC_LOG_INFO
#define DMLC_LOG_DEBUG DMLC_LOG_INFO
#define DMLC_LOG_FATAL ::dmlc::LogMessageFatal(__FILE__, __LINE__).stream()
#define LOG(severity) DMLC_LOG_##severity
#define LOG_IF(severity, condition) \
  !(condition) ? (void)0 : ::dmlc::LogMessageVoidify() & LOG(severity)
#define CHECK(condition) \
  (condition) ? (void)0  \
              : ::dmlc::LogMessageVoidify() & LOG(FATAL) << "Check failed: " #condition << ' '
#define DMLC_CHECK_OP(name, op, a, b)                                              \
  while (::dmlc::CheckFailure dmlc_check_failure = ::dmlc::check_##name((a), (b))) \
  LOG(FATAL) << "Check failed: " #a " " #op " " #b << *dmlc_check_failure
#define CHECK_LT(a, b) DMLC_CHECK_OP(lt, <, a, b)
#define CHECK_GT(a, b) DMLC_CHECK_OP(gt, >, a, b)
#define CHECK_LE(a, b) DMLC_CHECK_OP(le, <=, a, b)
#define CHECK_GE(a, b) DMLC_CHECK_OP(ge, >=, a, b)
#define CHECK_EQ(a, b) DMLC_CHECK_OP(eq, ==, a, b)
#define CHECK_NE(a, b) DMLC_CHECK_OP(ne, !=, a, b)
#define CHECK_NOTNULL(pointer) ::dmlc::check_not_null(__FILE__, __LINE__, #pointer, (pointer))
#ifdef NDEBUG
#define DCHECK(condition) \
  while (false) CHECK(condition)
#define DCHECK_LT(a, b) \
  while (false) CHECK_LT(a, b)
#define DCHECK_GT(a, b) \
  while (false) CHECK_GT(a, b)
#define DCHECK_LE(a, b) \
  while (false) CHECK_LE(a, b)
#define DCHECK_GE(a, b) \
  while (false) CHECK_GE(a, b)
#define DCHECK_EQ(a, b) \
  while (false) CHECK_EQ(a, b)
#define DCHECK_NE(a, b) \
  while (false) CHECK_NE(a, b)
#else
#define DCHECK(condition) CHECK(condition)
#define DCHECK_LT(a, b) CHECK_LT(a, b)
#define DCHECK_GT(a, b) CHECK_GT(a, b)
#define DCHECK_LE(a, b) CHECK_LE(a, b)
#define DCHECK_GE(a, b) CHECK_GE(a, b)
#define DCHECK_EQ(a, b) CHECK_EQ(a, b)
#define DCHECK_NE(a, b) CHECK_NE(a, b)
#endif

#endif  // DMLC_LOGGING_H_
