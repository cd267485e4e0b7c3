package intent_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/latchkey-gateway/latchkey/intent"
)

// fill sets every field of a struct from a stream of numbers, so that a field that is added
// later is filled, and then missed by whoever forgot it. A type that it does not know fails.
func fill(t interface{ Fatalf(string, ...any) }, v reflect.Value, next func() uint64) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		if n := next() % (1 << 50); n > 0 {
			*p = time.UnixMicro(int64(n)).UTC()
		}
		return
	case *[]byte:
		if n := next() % 70; n > 0 {
			*p = bytes.Repeat([]byte{byte(next())}, int(n))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field, next)
		}
	case reflect.Pointer:
		if next()%4 > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), next)
		}
	case reflect.Slice:
		for range next() % 5 {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			fill(t, v.Index(v.Len()-1), next)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range next() % 70 {
			name := reflect.New(v.Type().Key()).Elem()
			value := reflect.New(v.Type().Elem()).Elem()
			fill(t, name, next)
			fill(t, value, next)
			v.SetMapIndex(name, value)
		}
	case reflect.String:
		v.SetString(string(binary.AppendUvarint(nil, next())))
	case reflect.Bool:
		v.SetBool(next()%2 > 0)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(next() & (1<<(8*v.Type().Size()) - 1))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(next()))
	default:
		t.Fatalf("no test of fields like %v", v.Type())
	}
}

// roundTrip encodes and decodes, and says whether anything was lost.
func roundTrip(t interface{ Fatalf(string, ...any) }, r Receipt) {
	encoded := r.Encode()
	got, err := DecodeReceipt(encoded)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, got, r)
	}
	if again := got.Encode(); !bytes.Equal(again, encoded) {
		t.Fatalf("encoded again it is\n%x, was\n%x", again, encoded)
	}
}

func TestReceiptsSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r Receipt
		words := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3))
		fill(t, reflect.ValueOf(&r).Elem(), func() uint64 { return words.Draw(t, "n") })
		roundTrip(t, r)
	})
}

// TestEveryFieldSurvivesTheWire sets one field at a time, so that one which is left out,
// or written into its neighbour's place, is named.
func TestEveryFieldSurvivesTheWire(t *testing.T) {
	t.Parallel()
	alone := func(owner reflect.Type, whole func(reflect.Value) Receipt) {
		for i := range owner.NumField() {
			field, v := owner.Field(i), reflect.New(owner).Elem()
			n := uint64(0)
			fill(t, v.Field(i), func() uint64 { n++; return n })
			if v.Field(i).IsZero() {
				t.Errorf("%v.%s was not set", owner, field.Name)
			}
			r := whole(v)
			if got, err := DecodeReceipt(r.Encode()); err != nil || !reflect.DeepEqual(got, r) {
				t.Errorf("%v.%s is lost or misplaced: %v\n%+v", owner, field.Name, err, got)
			}
		}
	}
	alone(reflect.TypeFor[Receipt](), func(v reflect.Value) Receipt { return v.Interface().(Receipt) })
	alone(reflect.TypeFor[Recovery](), func(v reflect.Value) Receipt { return Receipt{Recovery: v.Interface().(Recovery)} })
	alone(reflect.TypeFor[Plan](), func(v reflect.Value) Receipt { return Receipt{Recovery: Recovery{Plan: v.Interface().(Plan)}} })
	alone(reflect.TypeFor[Outcome](), func(v reflect.Value) Receipt {
		out := v.Interface().(Outcome)
		if out.Headers == nil {
			out.Headers = map[string]string{}
		}
		return Receipt{Outcome: &out}
	})
}

func TestDecodeRefusesWhatIsCutOrAdded(t *testing.T) {
	t.Parallel()
	r := typical()
	encoded := r.Encode()
	for n := range len(encoded) {
		if got, err := DecodeReceipt(encoded[:n]); err == nil || !reflect.DeepEqual(got, Receipt{}) {
			t.Errorf("cut to %d of %d bytes: %v, %+v", n, len(encoded), err, got)
		}
	}
	if _, err := DecodeReceipt(append(bytes.Clone(encoded), 0)); err == nil {
		t.Error("a byte too much was taken")
	}
	for version := range 256 {
		other := bytes.Clone(encoded)
		other[0] = byte(version)
		if _, err := DecodeReceipt(other); (err == nil) != (version == 1) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// lengths returns encodings that claim absurd lengths: of a text, of the headers, of a body.
func lengths() (out [][]byte) {
	for _, n := range []int64{-1, 1 << 20, 1 << 40, 1<<63 - 1, -1 << 63} {
		text := append([]byte{1}, make([]byte, 32+32+32+16)...) // version and digests, then the tenant
		out = append(out, binary.AppendVarint(text, n))
		r := Receipt{Outcome: &Outcome{}}
		counted := r.Encode()
		counted = counted[:len(counted)-5] // header count, body, truncated, length, sha256
		out = append(out, binary.AppendVarint(bytes.Clone(counted), n))
		out = append(out, binary.AppendVarint(append(counted, 0), n))
	}
	return out
}

// TestDecodeBoundsMemory is not parallel: it counts what is allocated.
func TestDecodeBoundsMemory(t *testing.T) {
	for _, b := range lengths() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeReceipt(b)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 64<<10 {
			t.Errorf("%d bytes took %d bytes to refuse: %v", len(b), used, err)
		}
	}
}

// TestEncodeOnlyReads: one receipt is encoded for Redis while others read it. The race
// detector is the judge.
func TestEncodeOnlyReads(t *testing.T) {
	t.Parallel()
	r := typical()
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() { r.Encode() })
		g.Go(func() { r.AppendJSON(nil, true) })
	}
	g.Wait()
}

// typical is a completed receipt with a body of 300 bytes.
func typical() Receipt {
	r := shown(Completed)
	r.Args = []byte(`{"invoice_id":"inv-1","to":"a@example.com","memo":"Here is the invoice that you asked for."}`)
	r.Replica, r.Region = "gateway-7d9f-2kx8p", "eu-west-1"
	r.Outcome.Headers["location"] = "/emails/em_1"
	r.Outcome.Body = fmt.Appendf(nil, `{"id":"em_1","note":"%s"}`, bytes.Repeat([]byte("x"), 300-len(`{"id":"em_1","note":""}`)))
	return r
}

func BenchmarkEncode(b *testing.B) {
	r := typical()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = len(r.Encode())
	}
	b.ReportMetric(float64(n), "bytes/receipt")
}

func BenchmarkDecode(b *testing.B) {
	r := typical()
	encoded := r.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeReceipt(encoded); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	r := typical()
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		out = r.AppendJSON(out[:0], true)
	}
	b.ReportMetric(float64(len(out)), "bytes/receipt")
}

func BenchmarkDerive(b *testing.B) {
	r := typical()
	args, err := Parse(r.Args)
	if err != nil {
		b.Fatal(err)
	}
	to, trim := Pointer{"to"}, Normaliser{"trim", "lowercase"}
	rules := map[string]*Rules{
		"all":      {Tool: "send_invoice_email", StepGuard: true},
		"identity": {Tool: "send_invoice_email", StepGuard: true, Identity: []Pointer{{"invoice_id"}, to}, Normalise: map[string]Normaliser{"/to": trim}},
	}
	for name, rules := range rules {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.Derive(Call{Tenant: "acme", RunID: "run-42", StepID: "7", Args: args})
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	r := typical()
	b.ReportAllocs()
	b.SetBytes(int64(len(r.Args)))
	for b.Loop() {
		if _, err := Parse(r.Args); err != nil {
			b.Fatal(err)
		}
	}
}
