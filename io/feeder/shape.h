#pragma once
/// io/feeder/shape.h: what the first records of an input tell: the width of csv, the columns of
/// typed formats, and how large a slot must be. Every consumer, on whatever node, looks at the same
/// files in the same order and so sees the same.

#include "io/core/record_parser.h"
#include "io/core/schema.h"
#include "io/pipe/writer.h"
#include "io/source/source.h"

namespace dlrun::io {

struct InputShape {
  std::uint64_t cols = 0;     ///< csv: columns without the label; 0 = no good record seen
  std::uint64_t rows = 0;     ///< seen
  std::uint64_t entries = 0;  ///< in them; typed formats: RowStore's weight of them
  // typed formats
  Schema schema;  ///< declared or inferred; empty where the format has none
  Table form;     ///< the columns, without rows
};

/// Reads the head of the first files until a record is found. A bad record ends the look: whoever
/// reads it for real reports it. kInvalidArgument: no file tells the columns, or a record of them
/// may be larger than a slot can be.
Result<InputShape> look_at(Source& source, const std::vector<FileEntry>& files,
                           const InputSpec& spec);

/// Slots that hold `batch_rows` rows of that shape with room to spare, between slot_bytes_min,
/// which holds any one record, and slot_bytes_max: batches that would be larger have fewer rows.
inline constexpr std::uint32_t kRingSlots = 4;
inline constexpr std::uint64_t kSlotBytesMin = 1u << 20;
PipeGeometry geometry_for(const InputSpec& spec, const InputShape& shape,
                          std::uint64_t slot_bytes_max);

}  // namespace dlrun::io
