// Package intent says what an intent is. Start reading here. (Work in progress.)
package intent
