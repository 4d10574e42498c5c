#include "tools/synth/random.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <initializer_list>

#include "base/bytes.h"

namespace ttrace::synth {
namespace {

constexpr std::uint64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
constexpr std::uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
constexpr int kRounds = 10;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

// Names contain no control characters, so different lists give different texts.
std::uint64_t key_of(std::initializer_list<std::string_view> fields) {
  std::string text;
  for (const std::string_view field : fields) {
    if (!text.empty()) text += '\0';
    text += field;
  }
  return base::fnv1a(text);
}

RandomWords block(std::uint64_t key, std::uint64_t number) {
  const auto lower = static_cast<std::uint32_t>(number);
  const auto upper = static_cast<std::uint32_t>(number >> 32);
  return philox4x32({lower, upper, 0, 0}, key);
}

}  // namespace

RandomWords philox4x32(Counter counter, std::uint64_t key) {
  std::uint32_t k0 = low(key);
  std::uint32_t k1 = high(key);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = kMultipliers[0] * counter[0];
    const std::uint64_t p1 = kMultipliers[1] * counter[2];
    counter = {high(p1) ^ counter[1] ^ k0, low(p1), high(p0) ^ counter[3] ^ k1, low(p0)};
    k0 += kWeyl[0];
    k1 += kWeyl[1];
  }
  return counter;
}

Stream Stream::of_synthetic(std::uint64_t seed, std::string_view purpose, std::string_view what) {
  return Stream(key_of({purpose, std::to_string(seed), what}));
}

void Stream::words(std::uint64_t first, std::span<std::uint32_t> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const RandomWords four = block(key_, (first + done) / 4);
    for (std::size_t lane = (first + done) % 4; lane < 4 && done < out.size(); ++lane) {
      out[done++] = four[lane];
    }
  }
}

// clang-format off
const std::array<std::int32_t, 257> kQuantiles = {
    1701332580, 1696453258, 1692077168, 1688109181, 1684478900, 1681132757, 1678029034, 1675134605,
    1672422721, 1667462677, 1663013811, 1658979522, 1655288320, 1651885800, 1648729594, 1645786052,
    1643028005, 1637983156, 1633457814, 1629353836, 1625598586, 1622136787, 1618925382, 1615930179,
    1613123565, 1607989477, 1603383636, 1599206286, 1595383590, 1591859349, 1588589791, 1585540151,
    1582682353, 1577454194, 1572763472, 1568508733, 1564614880, 1561024749, 1557693814, 1554586707,
    1551674866, 1546347355, 1541566958, 1537230438, 1533261369, 1529601573, 1526205728, 1523037835,
    1520068817, 1514636165, 1509760837, 1505337715, 1501288974, 1497555365, 1494090731, 1490858403,
    1487828763, 1482284603, 1477308558, 1472793525, 1468660201, 1464848209, 1461310505, 1458009717,
    1454915655, 1449252956, 1444169801, 1439556987, 1435333651, 1431438218, 1427822708, 1424449003,
    1421286305, 1415497274, 1410299917, 1405582810, 1401263430, 1397278935, 1393580354, 1390128773,
    1386892754, 1380968712, 1375649254, 1370820590, 1366398438, 1362318609, 1358531074, 1354996078,
    1351681498, 1345612740, 1340162335, 1335213978, 1330681513, 1326499312, 1322616222, 1318991589,
    1315592562, 1309368175, 1303776870, 1298699658, 1294048377, 1289755868, 1285769774, 1282048480,
    1278558355, 1272165998, 1266422529, 1261206080, 1256426348, 1252014526, 1247916970, 1244091035,
    1240502251, 1233927887, 1228019423, 1222651905, 1217732725, 1213191308, 1208972625, 1205032921,
    1201336826, 1194564372, 1188476199, 1182944028, 1177872762, 1173189924, 1168838985, 1164774996,
    1160961615, 1153972507, 1147687620, 1141975075, 1136737086, 1131899110, 1127403001, 1123202510,
    1119260243, 1112032874, 1105531448, 1099620177, 1094198355, 1089189195, 1084532785, 1080181468,
    1076096699, 1068605673, 1061864371, 1055732740, 1050106886, 1044907569, 1040072953, 1035553835,
    1031310415, 1023525562, 1016516605, 1010138820, 1004284811, 998872649, 993838380, 989131105,
    984709644, 976594676, 969284583, 962629488, 956518138, 950865631, 945605674, 940685493,
    936062380, 927573025, 919920844, 912950249, 906545701, 900618998, 895101245, 889937582,
    885083599, 876164941, 868119727, 860785991, 854043404, 847800071, 841984185, 836538547,
    831416837, 821999408, 813496492, 805738946, 798601046, 791986730, 785820905, 780043730,
    774606724, 764600564, 755555846, 747295283, 739687018, 732630254, 726046152, 719871856,
    714056424, 703341653, 693642474, 684772273, 676592162, 668995897, 661900335, 655239149,
    648958557, 637369605, 626859346, 617230367, 608335627, 600062563, 592323024, 585046647,
    578176336, 565473807, 553924052, 543317020, 533496111, 524341340, 515758671, 507672983,
    500023278, 485839248, 472894800, 460964913, 449881644, 439516186, 429767491, 420554765,
    411812348, 395530941, 380587021, 366737544, 353800856, 341637440, 330137697, 319213875,
    308794560, 289243383, 271117172, 254149792, 238141591, 222938566, 208419130, 194485349,
    181056964, 155459606, 131204919, 107978180, 85534103, 63673456, 42227765, 21048672, 0};
// clang-format on

float uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-23F - 1.0F; }

std::int32_t normal_units(std::uint32_t word) {
  // The top bit is the sign; `tail` is the probability, in units of 2^-33, of lying further out.
  const std::uint32_t tail = (word << 1) | 1;
  const int leading = std::countl_zero(tail);
  const std::uint32_t mantissa = tail << leading;
  const auto octave = static_cast<std::size_t>(31 - leading);
  const std::size_t entry = 8 * octave + ((mantissa >> 28) & 7);
  const std::int64_t between = mantissa & 0x0FFFFFFF;
  const std::int64_t drop = kQuantiles[entry] - kQuantiles[entry + 1];
  const auto units = static_cast<std::int32_t>(kQuantiles[entry] - ((drop * between) >> 28));
  return (word >> 31) != 0 ? -units : units;
}

float normal(std::uint32_t word, double mean, double std_dev) {
  return static_cast<float>(mean + std_dev * (normal_units(word) * 0x1p-28));
}

void fill_random_words(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
                       std::span<std::uint32_t> out) {
  // Rows of the last dimension are contiguous in the tensor; larger boxes may not be.
  tensor::Box row = box;
  if (!row.extent.empty()) row.extent.back() = std::min<std::uint64_t>(row.extent.back(), 1);
  const std::size_t length = box.extent.empty() ? 1 : box.extent.back();
  std::size_t done = 0;
  tensor::for_each_sub_box(row, 1, [&](const tensor::Box& one) {
    stream.words(tensor::position(shape, one.origin), out.subspan(done, length));
    done += length;
  });
}

}  // namespace ttrace::synth
