package tracing

import "testing"

func TestContinue(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	tests := []struct {
		header string
		joins  bool
	}{
		{"00-" + trace + "-" + parent + "-01", true},
		{"00-" + trace + "-" + parent + "-00", true},
		{"cc-" + trace + "-" + parent + "-01-more", true}, // a later version may be longer
		{"00-" + trace + "-" + parent + "-01-more", false},
		{"ff-" + trace + "-" + parent + "-01", false},
		{"00-" + "00000000000000000000000000000000" + "-" + parent + "-01", false},
		{"00-" + trace + "-" + "0000000000000000" + "-01", false},
		{"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + parent + "-01", false},
		{"00-" + trace + "_" + parent + "-01", false},
		{"00-zzf92f3577b34da6a3ce929d0e0e4736-" + parent + "-01", false},
		{"", false},
	}
	for _, tt := range tests {
		s := Continue(tt.header)
		if got := s.TraceID() == trace; got != tt.joins {
			t.Errorf("Continue(%q) joins the trace: %v, want %v", tt.header, got, tt.joins)
		}
		if s.SpanID() == parent {
			t.Errorf("Continue(%q) reuses the parent's span id", tt.header)
		}
		if again, ok := parse(s.Traceparent()); !ok || again != s {
			t.Errorf("Continue(%q).Traceparent() = %q does not read back", tt.header, s.Traceparent())
		}
	}
	if a, b := Continue(""), Continue(""); a.TraceID() == b.TraceID() {
		t.Error("two new traces share an id")
	}
}
