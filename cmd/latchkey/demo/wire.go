package demo

import (
	"encoding/json"
	"errors"
	"net/http"
)

// maxBody is what the services read of a request; more is 413.
const maxBody = 1 << 20

// readJSON decodes the body into v, or answers why not. Members it does not know are left
// alone, as most providers do.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(v)
	if err == nil {
		return true
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		writeError(w, http.StatusRequestEntityTooLarge, "the body is over 1 MiB")
	} else {
		writeError(w, http.StatusBadRequest, "the body is not the JSON object that this service takes")
	}
	return false
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "the answer could not be written as JSON")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a caller that left is not this service's concern
}

func writeError(w http.ResponseWriter, status int, msg string) {
	writeJSON(w, status, map[string]string{"error": msg})
}
