#include "runtime/wire/logs_codec.h"

#include "runtime/wire/common_codec.h"
#include "runtime/wire/logs.capnp.h"

namespace dlrun::wire {

std::string encode(const LogHeader& header) {
  capnp::MallocMessageBuilder builder;
  auto to = builder.initRoot<schema::LogHeader>();
  to.setKind(static_cast<std::uint8_t>(header.kind));
  to.setRequest(header.request);
  put(to.initTask(), header.task);
  to.setStream(header.stream);
  to.setOffset(header.offset);
  to.setGap(header.gap);
  to.setError(static_cast<std::uint32_t>(header.error));
  if (!header.error_context.empty()) to.setErrorContext(header.error_context);
  put(to.initEpoch(), header.epoch);
  if (!header.proof.empty()) to.setProof(data_of(header.proof));
  return to_bytes(builder);
}

Result<LogHeader> decode_log_header(std::string_view bytes) {
  return from_bytes<schema::LogHeader>(
      bytes, "log header", [](schema::LogHeader::Reader from) -> Result<LogHeader> {
        LogHeader header;
        const std::uint8_t kind = from.getKind();
        if (!((kind >= 1 && kind <= 3) || (kind >= 11 && kind <= 13))) {
          return fail(Errc::kCorrupt, "log header: unknown kind " + std::to_string(kind));
        }
        header.kind = static_cast<LogKind>(kind);
        header.request = from.getRequest();
        DLRUN_ASSIGN(header.task, get(from.getTask()));
        header.stream = from.getStream();
        if (header.stream < 1 || header.stream > 2) {
          return fail(Errc::kCorrupt,
                      "log header: unknown stream " + std::to_string(header.stream));
        }
        header.offset = from.getOffset();
        header.gap = from.getGap();
        const std::uint32_t error = from.getError();
        header.error = error <= static_cast<std::uint32_t>(Errc::kInternal)
                           ? static_cast<Errc>(error)
                           : Errc::kInternal;
        header.error_context = to_string(from.getErrorContext());
        header.epoch = get(from.getEpoch());
        header.proof = to_string(from.getProof());
        return header;
      });
}

}  // namespace dlrun::wire
