#include "runtime/wire/ps_table_codec.h"

#include <string>

namespace dlrun::wire {
namespace {

constexpr std::size_t kNameBytesMax = 1024;

}  // namespace

Result<ps::TableSchema> table_schema_of(ps_schema::TableSchema::Reader r) {
  ps::TableSchema s;
  if (r.getName().size() > kNameBytesMax) return fail(Errc::kCorrupt, "table name too long");
  if (!to_enum(r.getKind(), ps::KeyKind::kDense, ps::KeyKind::kSparse, s.kind) ||
      !to_enum(r.getOptimizer(), ps::Optimizer::kSgd, ps::kOptimizerLast, s.optimizer) ||
      !to_enum(r.getInitializer(), ps::Initializer::kZero, ps::kInitializerLast, s.initializer) ||
      !to_enum(r.getConsistency(), ps::Consistency::kBsp, ps::Consistency::kAsp, s.consistency) ||
      !to_enum(r.getDtype(), ps::Dtype::kF32, ps::Dtype::kBf16, s.dtype) ||
      !to_enum(r.getAdmission(), ps::Admission::kAlways, ps::Admission::kProbability,
               s.admission) ||
      !to_enum(r.getEviction(), ps::Eviction::kNone, ps::Eviction::kLfu, s.eviction) ||
      !to_enum(r.getMissing(), ps::Missing::kInitial, ps::Missing::kValue, s.missing)) {
    return fail(Errc::kUnsupported, "table schema with a choice that this version does not know");
  }
  s.id = r.getId();
  s.name.assign(r.getName().begin(), r.getName().size());
  s.rows = r.getRows();
  s.dim = r.getDim();
  s.learning_rate = r.getLearningRate();
  s.beta = r.getBeta();
  s.l1 = r.getL1();
  s.l2 = r.getL2();
  s.epsilon = r.getEpsilon();
  s.accumulator = r.getAccumulator();
  s.init_a = r.getInitA();
  s.init_b = r.getInitB();
  s.seed = r.getSeed();
  s.staleness = r.getStaleness();
  s.momentum = r.getMomentum();
  s.beta1 = r.getBeta1();
  s.beta2 = r.getBeta2();
  s.group_l1 = r.getGroupL1();
  s.clip_value = r.getClipValue();
  s.clip_norm = r.getClipNorm();
  s.admission_n = r.getAdmissionN();
  s.admission_p = r.getAdmissionP();
  s.ttl_s = r.getTtlS();
  s.budget_bytes = r.getBudgetBytes();
  s.missing_value = r.getMissingValue();
  return s;
}

void put_table_schema(const ps::TableSchema& s, ps_schema::TableSchema::Builder b) {
  b.setId(s.id);
  b.setName(kj::StringPtr(s.name.c_str(), s.name.size()));
  b.setKind(static_cast<std::uint8_t>(s.kind));
  b.setRows(s.rows);
  b.setDim(s.dim);
  b.setOptimizer(static_cast<std::uint8_t>(s.optimizer));
  b.setLearningRate(s.learning_rate);
  b.setBeta(s.beta);
  b.setL1(s.l1);
  b.setL2(s.l2);
  b.setEpsilon(s.epsilon);
  b.setAccumulator(s.accumulator);
  b.setInitializer(static_cast<std::uint8_t>(s.initializer));
  b.setInitA(s.init_a);
  b.setInitB(s.init_b);
  b.setSeed(s.seed);
  b.setConsistency(static_cast<std::uint8_t>(s.consistency));
  b.setStaleness(s.staleness);
  b.setDtype(static_cast<std::uint8_t>(s.dtype));
  b.setMomentum(s.momentum);
  b.setBeta1(s.beta1);
  b.setBeta2(s.beta2);
  b.setGroupL1(s.group_l1);
  b.setClipValue(s.clip_value);
  b.setClipNorm(s.clip_norm);
  b.setAdmission(static_cast<std::uint8_t>(s.admission));
  b.setAdmissionN(s.admission_n);
  b.setAdmissionP(s.admission_p);
  b.setEviction(static_cast<std::uint8_t>(s.eviction));
  b.setTtlS(s.ttl_s);
  b.setBudgetBytes(s.budget_bytes);
  b.setMissing(static_cast<std::uint8_t>(s.missing));
  b.setMissingValue(s.missing_value);
}

}  // namespace dlrun::wire
