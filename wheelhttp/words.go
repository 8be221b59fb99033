package wheelhttp

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// number writes 1234567 as 1,234,567.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes a number of things.
func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// rate writes a number per second.
func rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 0.01:
		return "<0.01"
	case perSecond < 10:
		return strconv.FormatFloat(perSecond, 'f', 2, 64)
	}
	return number(uint64(math.Round(perSecond)))
}

// span writes a duration with the two units that matter.
func span(d time.Duration) string {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	switch {
	case d < 0:
		return "-" + span(-max(d, -math.MaxInt64))
	case d == 0:
		return "0 s"
	case d >= 10*time.Millisecond && d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Second:
		return strconv.FormatFloat(d.Seconds()*1e3, 'g', 3, 64) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return twoUnits(d, time.Minute, "min", time.Second, "s")
	case d < day:
		return twoUnits(d, time.Hour, "h", time.Minute, "min")
	case d < year:
		return twoUnits(d, day, "d", time.Hour, "h")
	}
	return twoUnits(d, year, "y", day, "d")
}

func twoUnits(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	s := fmt.Sprintf("%d %s", d/big, bigName)
	if rest := d % big / small; rest > 0 {
		s += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return s
}

// moment writes a time as near to now as it is, to the millisecond if it is not a
// whole second.
func moment(t, now time.Time) string {
	layout := "15:04:05"
	if t.Nanosecond() >= int(time.Millisecond) {
		layout = "15:04:05.000"
	}
	switch y, m, d := t.Date(); {
	case y != now.Year():
		layout = "2006-01-02 " + layout
	case m != now.Month() || d != now.Day():
		layout = "Jan 2 " + layout
	}
	return t.Format(layout)
}
